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

// Kind is the class of a problem with a store or an object.
type Kind int

// The kinds.
const (
	Unavailable Kind = iota // the store does not respond correctly; a retry may succeed
	NotFound                // no such bucket, container, data set or object
	Denied                  // credentials are missing, or may not do this
	Changed                 // the object is not the one that was listed
	Invalid                 // invalid settings, or a response that a retry does not change
)

// Error is an error of a store, with the problem, the location and what to do.
type Error struct {
	Kind       Kind
	URL        string // of the object, or of its store
	Err        error
	hint       string
	retryAfter time.Duration // minimum wait before a retry, from the store
}

var defaultHints = map[Kind]string{
	Unavailable: "asked again, it may answer",
	NotFound:    "look at the name, and at the account or endpoint that is asked",
	Changed: "it was written again while it was read: documents of both would be mixed. Put the former object back, or " +
		"start again under another source",
}

func (e *Error) Error() string {
	hint := e.hint
	if hint == "" {
		hint = defaultHints[e.Kind]
	}
	if hint != "" {
		hint = "; " + hint
	}
	return fmt.Sprintf("%s: %v%s", e.URL, e.Err, hint)
}

func (e *Error) Unwrap() error { return e.Err }

// IsTemporary reports whether an unchanged retry may succeed.
func IsTemporary(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Unavailable
}

// IsKind reports whether an error is of a kind.
func IsKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// doRequest sends a request and returns a successful response. Errors contain where instead of the request's URL, which
// may contain secrets. denied is what to do if access is denied.
func doRequest(client *http.Client, r *http.Request, where, denied string) (*http.Response, error) {
	answer, err := client.Do(r)
	if err != nil {
		return nil, connectionError(r.Context(), where, err)
	}
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusPartialContent {
		return answer, nil
	}
	defer answer.Body.Close() // read only
	return nil, responseError(answer, where, denied)
}

// connectionError returns the error for a request without a response.
func connectionError(ctx context.Context, where string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var at *url.Error
	if errors.As(err, &at) { // it contains the whole address
		err = at.Err
	}
	if refused := (*redirectError)(nil); errors.As(err, &refused) {
		return &Error{Kind: Invalid, URL: where, Err: refused, hint: "give the address of the object itself"}
	}
	return &Error{Kind: Unavailable, URL: where, Err: err}
}

// responseError returns the error for an unsuccessful response.
func responseError(answer *http.Response, where, denied string) error {
	e := &Error{URL: where, Err: fmt.Errorf("the store answers %s%s", strings.ToLower(answer.Status), errorCode(answer))}
	setKind(e, answer.StatusCode, denied)
	e.retryAfter = retryAfter(answer.Header)
	return e
}

// retryAfter returns the pause that a store requests.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryPause)
}

// setKind sets the kind of an error by the HTTP status.
func setKind(e *Error, status int, denied string) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.hint = Denied, denied
	case http.StatusNotFound, http.StatusGone:
		e.Kind = NotFound
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		e.Kind = Changed
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusTooEarly:
		e.Kind = Unavailable
	default:
		e.Kind = Invalid
		if status >= 500 {
			e.Kind = Unavailable
		}
	}
}

// errorCode returns only the error code in the body of a response, because the rest may repeat the request.
func errorCode(answer *http.Response) string {
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
