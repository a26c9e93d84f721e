package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Kind is what is wrong with a store or an object.
type Kind int

// The kinds.
const (
	Down     Kind = iota // the store does not answer as it should: asked again, it may
	Missing              // no such bucket, container, data set or object
	Denied               // credentials are missing, or may not do this
	Changed              // the object is not the one that was listed
	Unusable             // settings, or an answer, that asking again does not mend
)

// Error is an error of a store. It says what is wrong, where, and what to do.
type Error struct {
	Kind Kind
	URL  string // of the object, or of its store
	Err  error
	hint string
	wait time.Duration // before it is asked again, as the store says
}

var advice = map[Kind]string{
	Down:    "asked again, it may answer",
	Missing: "look at the name, and at the account or endpoint that is asked",
	Changed: "it was written again while it was read: documents of both would be mixed. Put the former object back, or " +
		"begin anew under another source",
}

func (e *Error) Error() string {
	hint := e.hint
	if hint == "" {
		hint = advice[e.Kind]
	}
	if hint != "" {
		hint = "; " + hint
	}
	return fmt.Sprintf("%s: %v%s", e.URL, e.Err, hint)
}

func (e *Error) Unwrap() error { return e.Err }

// Passes says whether the same call may succeed when it is made again with nothing changed.
func Passes(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Down
}

// IsKind says whether an error is of a kind.
func IsKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// ask sends a request and returns a good answer. An error says nothing of the request's address but where: it may hold
// secrets. denied is what to do where it is not permitted.
func ask(client *http.Client, r *http.Request, where, denied string) (*http.Response, error) {
	answer, err := client.Do(r)
	if err != nil {
		return nil, unreachable(r.Context(), where, err)
	}
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusPartialContent {
		return answer, nil
	}
	defer answer.Body.Close() // nothing was written
	return nil, refused(answer, where, denied)
}

// unreachable is the error of a request without an answer.
func unreachable(ctx context.Context, where string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var at *url.Error
	if errors.As(err, &at) { // names the whole address
		err = at.Err
	}
	if refused := (*redirectError)(nil); errors.As(err, &refused) {
		return &Error{Kind: Unusable, URL: where, Err: refused, hint: "give the address of the object itself"}
	}
	return &Error{Kind: Down, URL: where, Err: err}
}

// refused is the error of an answer that is none of those that are wanted.
func refused(answer *http.Response, where, denied string) error {
	e := &Error{URL: where, Err: fmt.Errorf("the store answers %s%s", strings.ToLower(answer.Status), said(answer))}
	kindOf(e, answer.StatusCode, denied)
	e.wait = retryAfter(answer.Header)
	return e
}

// retryAfter is the pause that a store asks for.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, longestPause)
}

// kindOf tells what is wrong by a status.
func kindOf(e *Error, status int, denied string) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.hint = Denied, denied
	case http.StatusNotFound, http.StatusGone:
		e.Kind = Missing
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		e.Kind = Changed
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusTooEarly:
		e.Kind = Down
	default:
		e.Kind = Unusable
		if status >= 500 {
			e.Kind = Down
		}
	}
}

// said is the code, and no more, that an answer's body gives: what else stands there may repeat the request.
func said(answer *http.Response) string {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	_, after, found := strings.Cut(string(body), "<Code>")
	code, _, closed := strings.Cut(after, "</Code>")
	if !found || !closed || len(code) > 64 || strings.ContainsFunc(code, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return ""
	}
	return " (" + code + ")"
}
