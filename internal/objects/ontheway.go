package objects

import (
	"io"
	"net/http"
)

// onTheWay marks what goes wrong while an answer is read as a wayError: the client of S3 returns that and its own complaints alike. Errors of a request
// without an answer are *url.Error anyway.
type onTheWay struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onTheWay) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err == nil {
		answer.Body = wayBody{answer.Body}
	}
	return answer, err
}

type wayBody struct{ io.ReadCloser }

func (b wayBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &wayError{err}
	}
	return n, err
}

// wayError is an error of a connection.
type wayError struct{ error }

func (e *wayError) Unwrap() error { return e.error }
