package objects_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// corpusOf starts a fake of S3 with an object a.jsonl, and configures it as the endpoint.
func corpusOf(t *testing.T, data []byte) *objecttest.S3Double {
	s3 := objecttest.NewS3(t)
	s3.Web.Put("/"+bucket+"/a.jsonl", data)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	return s3
}

// Truncated listings and reads, and requests to a busy server, are retried.
func TestS3_RetriesFaults(t *testing.T) {
	data := random(100_000)
	s3 := corpusOf(t, data)
	var n atomic.Int64
	s3.Web.Faults(func(r *http.Request) objecttest.Fault {
		switch n.Add(1) {
		case 1: // within the first listing
			return objecttest.Fault{Cut: true, After: 40}
		case 2:
			return objecttest.Fault{Status: 503}
		case 4: // within the object
			return objecttest.Fault{Cut: true, After: 40_000}
		}
		return objecttest.Fault{}
	})
	s := objects.New(objects.Options{})
	o := list(t, s, "s3://"+bucket+"/*.jsonl")[0]
	if got, err := readAll(t.Context(), s, o, 0); err != nil || !bytes.Equal(got, data) || n.Load() != 5 {
		t.Errorf("%d bytes, %v, after %d requests; want %d after 5", len(got), err, n.Load(), len(data))
	}
}

// Permanent errors are returned immediately: for an invalid name, and for a response that violates the protocol.
func TestS3_PermanentErrorsAreNotRetried(t *testing.T) {
	corpusOf(t, []byte("data"))
	once := objects.Options{RetryTimeout: patience, OnRetry: func(problem string) { t.Errorf("asked again: %s", problem) }}
	s := objects.New(once)
	o := list(t, s, "s3://"+bucket+"/a.jsonl")[0]
	o.URL += strings.Repeat("x", 1025)
	if _, err := readAll(t.Context(), s, o, 0); err == nil || !strings.Contains(err.Error(), "longer than 1024") {
		t.Errorf("of a name that can be none: %v", err)
	}
	page := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = out.Write([]byte("<html><p>Sign in<br>to this network</p></html>"))
	}))
	t.Cleanup(page.Close)
	t.Setenv("AWS_ENDPOINT_URL", page.URL)
	_, err := objects.New(once).List(t.Context(), "s3://"+bucket+"/**")
	if !objects.IsKind(err, objects.Invalid) || strings.Contains(err.Error(), "does not answer") {
		t.Errorf("of a server that is none of S3's: %v", err)
	}
}
