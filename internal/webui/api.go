package webui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"loaderd/internal/api"
	"loaderd/internal/httplimit"
	"loaderd/internal/ledger"
	"loaderd/loader/fault"
)

// maxBody is the maximum size of an action's body, in bytes.
const maxBody = 64 << 10

// changes are the actions that the page sends. All other actions have their own path, or are only for programs.
var changes = map[string]bool{"drain": true, "seal": true, "mix": true, "checkpoint": true, "measure": true}

// ask requests an action with a JSON body, in the name of the request's caller.
func (p *Page) ask(q *http.Request, action string, body any) ([]json.RawMessage, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the body of %s: %w", action, err)
	}
	return p.config.Asker.Ask(q.Context(), p.caller(q), action, b)
}

// reply sends a document or an error.
func (p *Page) reply(w http.ResponseWriter, q *http.Request, document any, err error) {
	if err == nil {
		var b []byte
		if b, err = json.Marshal(document); err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Vary", "Accept-Encoding")
			b = append(b, '\n')
			if takesGzip(q) {
				w.Header().Set("Content-Encoding", "gzip")
				b = compressed(b)
			}
			_, _ = w.Write(b) // no error handling: the client is gone
			return
		}
	}
	var typed *fault.Error
	if !errors.As(err, &typed) && q.Context().Err() == nil {
		p.config.Log.Error("cannot serve a page", "path", q.URL.Path, "error", err)
	}
	refuse(w, err)
}

// step serves the rows of a whole step, and with ?documents=true the origins of their documents.
func (p *Page) step(w http.ResponseWriter, q *http.Request) {
	values, err := asked(q, "documents")
	documents, unclear := boolean(values, "documents")
	step, odd := strconv.ParseUint(q.PathValue("step"), 10, 63)
	if odd != nil {
		unclear = wrong("step", q.PathValue("step"), "the number of a step, from 0 on")
	}
	if err = cmp.Or(err, unclear); err != nil {
		refuse(w, err)
		return
	}
	results, err := p.ask(q, "ledger", map[string]any{"step": step, "documents": documents})
	whole := ledger.Step{}
	for _, r := range results {
		var part api.Page
		if e := json.Unmarshal(r, &part); e != nil && err == nil {
			err = fmt.Errorf("read a page of step %d: %w", step, e)
		}
		whole.Add(part)
	}
	p.reply(w, q, whole, err)
}

// find serves the rows that contain a document, which is given by its producer's id or by its sequence.
func (p *Page) find(w http.ResponseWriter, q *http.Request) {
	values, err := asked(q, "id", "source", "sequence")
	body := map[string]any{}
	for _, key := range []string{"id", "source"} {
		if v := values.Get(key); v != "" {
			body[key] = v
		}
	}
	if err == nil {
		err = number(values, "sequence", body)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	results, err := p.ask(q, "find", body)
	p.reply(w, q, append([]json.RawMessage{}, results...), err)
}

// text serves a part of a document, split at token boundaries.
func (p *Page) text(w http.ResponseWriter, q *http.Request) {
	values, err := asked(q, "source", "sequence", "start", "tokens")
	body := map[string]any{}
	if v := values.Get("source"); v != "" {
		body["source"] = v
	}
	for _, key := range []string{"sequence", "start", "tokens"} {
		if err == nil {
			err = number(values, key, body)
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	p.one(w, q, "text", body)
}

// action performs an action that changes the run. The request's body is that of the action.
func (p *Page) action(w http.ResponseWriter, q *http.Request) {
	name := q.PathValue("action")
	if !changes[name] {
		p.unknown(w, q)
		return
	}
	if _, err := p.config.Asker.Identify(q.Context(), p.caller(q), name); err != nil { // before the body uses memory
		w.Header().Set("Connection", "close") // else the server would read the body before it responds
		refuse(w, err)
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	httplimit.BodyRead(w)
	if err == nil && len(b) > 0 && !json.Valid(b) {
		err = errors.New("it is no JSON")
	}
	if err != nil {
		refuse(w, bad(fmt.Sprintf("body of action %s: %v", name, err), "send the action's JSON, {} for none"))
		return
	}
	if len(b) == 0 {
		b = []byte("{}")
	}
	p.one(w, q, name, json.RawMessage(b))
}

// maxLogin is the maximum size of the body of a login, in bytes.
const maxLogin = 1 << 10

// logIn exchanges the code of a page link for a token.
func (p *Page) logIn(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Code string `json:"code"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, q.Body, maxLogin)).Decode(&body)
	httplimit.BodyRead(w)
	if err != nil {
		refuse(w, bad("body of login: "+err.Error(), `send {"code": ...}, that of the link`))
		return
	}
	token, err := p.config.Asker.LogIn(q.Context(), p.caller(q), body.Code)
	p.reply(w, q, map[string]string{"token": token}, err)
}

// one serves the single result of an action.
func (p *Page) one(w http.ResponseWriter, q *http.Request, action string, body any) {
	results, err := p.ask(q, action, body)
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("action %s has %d results, want 1", action, len(results))
	}
	if err != nil {
		p.reply(w, q, nil, err)
		return
	}
	p.reply(w, q, results[0], nil)
}

func (p *Page) unknown(w http.ResponseWriter, q *http.Request) {
	refuse(w, &fault.Error{Reason: unsupported, Message: fmt.Sprintf("there is no %s %.100q", q.Method, q.URL.Path),
		Do: "docs/livepage.md names what there is"})
}

// asked returns the values of the query, which must not contain keys other than keys.
func asked(q *http.Request, keys ...string) (url.Values, error) {
	values, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, bad("the query cannot be read: "+err.Error(), "write it as key=value&key=value")
	}
	for key := range values {
		if !slices.Contains(keys, key) {
			return nil, bad(fmt.Sprintf("the query has the key %.100q", key), fmt.Sprintf("use the keys %q", keys))
		}
	}
	return values, nil
}

// number copies a number from the query into the body of an action.
func number(values url.Values, key string, body map[string]any) error {
	v := values.Get(key)
	if v == "" {
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		return wrong(key, v, "a number from 0 on")
	}
	body[key] = n
	return nil
}

func boolean(values url.Values, key string) (bool, error) {
	v := values.Get(key)
	if v == "" {
		return false, nil
	}
	is, err := strconv.ParseBool(v)
	if err != nil {
		return false, wrong(key, v, "true or false")
	}
	return is, nil
}

func wrong(key, is, want string) error {
	return bad(fmt.Sprintf("%s %.100q: want %s", key, is, want), "correct it")
}
