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

// pageActions are the actions that the page sends. All other actions have their own path, or are only for programs.
var pageActions = map[string]bool{"flush": true, "seal": true, "mix": true, "filter": true, "schedule": true,
	"checkpoint": true, "measure": true}

// doAction requests an action with a JSON body, in the name of the request's caller.
func (p *Page) doAction(q *http.Request, action string, body any) ([]json.RawMessage, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the body of %s: %w", action, err)
	}
	return p.config.Actions.DoAction(q.Context(), p.caller(q), action, b)
}

// writeJSON sends a document or an error.
func (p *Page) writeJSON(w http.ResponseWriter, q *http.Request, document any, err error) {
	if err == nil {
		var b []byte
		if b, err = json.Marshal(document); err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Vary", "Accept-Encoding")
			b = append(b, '\n')
			if acceptsGzip(q) {
				w.Header().Set("Content-Encoding", "gzip")
				b = gzipBytes(b)
			}
			_, _ = w.Write(b) // no error handling: the client is gone
			return
		}
	}
	var typed *fault.Error
	if !errors.As(err, &typed) && q.Context().Err() == nil {
		p.config.Log.Error("cannot serve a page", "path", q.URL.Path, "error", err)
	}
	writeError(w, err)
}

// serveStep serves the rows of a whole step, and with ?documents=true the origins of their documents.
func (p *Page) serveStep(w http.ResponseWriter, q *http.Request) {
	values, err := queryValues(q, "documents")
	documents, unclear := parseBoolean(values, "documents")
	step, odd := strconv.ParseUint(q.PathValue("step"), 10, 63)
	if odd != nil {
		unclear = invalidParameter("step", q.PathValue("step"), "the number of a step, from 0 on")
	}
	if err = cmp.Or(err, unclear); err != nil {
		writeError(w, err)
		return
	}
	results, err := p.doAction(q, "ledger", map[string]any{"step": step, "documents": documents})
	whole := ledger.Step{}
	for _, r := range results {
		var part api.LedgerPage
		if e := json.Unmarshal(r, &part); e != nil && err == nil {
			err = fmt.Errorf("read a page of step %d: %w", step, e)
		}
		whole.AddPage(part)
	}
	p.writeJSON(w, q, whole, err)
}

// serveRows serves the rows that contain a document, which is given by its producer's id or by its sequence.
func (p *Page) serveRows(w http.ResponseWriter, q *http.Request) {
	values, err := queryValues(q, "id", "source", "sequence")
	body := map[string]any{}
	for _, key := range []string{"id", "source"} {
		if v := values.Get(key); v != "" {
			body[key] = v
		}
	}
	if err == nil {
		err = copyNumber(values, "sequence", body)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	results, err := p.doAction(q, "find", body)
	p.writeJSON(w, q, append([]json.RawMessage{}, results...), err)
}

// serveText serves a part of a document, split at token boundaries.
func (p *Page) serveText(w http.ResponseWriter, q *http.Request) {
	values, err := queryValues(q, "source", "sequence", "start", "tokens")
	body := map[string]any{}
	if v := values.Get("source"); v != "" {
		body["source"] = v
	}
	for _, key := range []string{"sequence", "start", "tokens"} {
		if err == nil {
			err = copyNumber(values, key, body)
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	p.serveSingleResult(w, q, "text", body)
}

// serveAction performs an action that changes the run. The request's body is that of the action.
func (p *Page) serveAction(w http.ResponseWriter, q *http.Request) {
	name := q.PathValue("action")
	if !pageActions[name] {
		p.serveNotFound(w, q)
		return
	}
	if _, err := p.config.Actions.Identify(q.Context(), p.caller(q), name); err != nil { // before the body uses memory
		w.Header().Set("Connection", "close") // else the server would read the body before it responds
		writeError(w, err)
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	httplimit.ClearReadDeadline(w)
	if err == nil && len(b) > 0 && !json.Valid(b) {
		err = errors.New("it is no JSON")
	}
	if err != nil {
		writeError(w, badRequest(fmt.Sprintf("body of action %s: %v", name, err), "send the action's JSON, {} for none"))
		return
	}
	if len(b) == 0 {
		b = []byte("{}")
	}
	p.serveSingleResult(w, q, name, json.RawMessage(b))
}

// maxLogin is the maximum size of the body of a login, in bytes.
const maxLogin = 1 << 10

// serveLogin exchanges the code of a page link for a token.
func (p *Page) serveLogin(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Code string `json:"code"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, q.Body, maxLogin)).Decode(&body)
	httplimit.ClearReadDeadline(w)
	if err != nil {
		writeError(w, badRequest("body of login: "+err.Error(), `send {"code": ...}, that of the link`))
		return
	}
	token, err := p.config.Actions.LogIn(q.Context(), p.caller(q), body.Code)
	p.writeJSON(w, q, map[string]string{"token": token}, err)
}

// serveSingleResult serves the single result of an action.
func (p *Page) serveSingleResult(w http.ResponseWriter, q *http.Request, action string, body any) {
	results, err := p.doAction(q, action, body)
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("action %s has %d results, want 1", action, len(results))
	}
	if err != nil {
		p.writeJSON(w, q, nil, err)
		return
	}
	p.writeJSON(w, q, results[0], nil)
}

func (p *Page) serveNotFound(w http.ResponseWriter, q *http.Request) {
	writeError(w, &fault.Error{Reason: unsupported, Message: fmt.Sprintf("there is no %s %.100q", q.Method, q.URL.Path),
		Advice: "docs/how-to/live-page.md#json-api lists the requests"})
}

// queryValues returns the values of the query, which must not contain keys other than keys.
func queryValues(q *http.Request, keys ...string) (url.Values, error) {
	values, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query cannot be read: "+err.Error(), "write it as key=value&key=value")
	}
	for key := range values {
		if !slices.Contains(keys, key) {
			return nil, badRequest(fmt.Sprintf("the query has the key %.100q", key), fmt.Sprintf("use the keys %q", keys))
		}
	}
	return values, nil
}

// copyNumber copies a number from the query into the body of an action.
func copyNumber(values url.Values, key string, body map[string]any) error {
	v := values.Get(key)
	if v == "" {
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		return invalidParameter(key, v, "a number from 0 on")
	}
	body[key] = n
	return nil
}

func parseBoolean(values url.Values, key string) (bool, error) {
	v := values.Get(key)
	if v == "" {
		return false, nil
	}
	is, err := strconv.ParseBool(v)
	if err != nil {
		return false, invalidParameter(key, v, "true or false")
	}
	return is, nil
}

func invalidParameter(key, is, want string) error {
	return badRequest(fmt.Sprintf("%s %.100q: want %s", key, is, want), "correct it")
}
