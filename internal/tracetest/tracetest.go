// Package tracetest is an OpenTelemetry collector for tests, which decodes and stores spans.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives spans until the test ends.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is empty for a root
	Name              string
	From, Until       time.Time
	About             map[string]any // attributes, including those of the resource
}

// Start starts a collector.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(c.Handler(t))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Handler receives spans. A request that is not a valid export of spans fails the test.
func (c *Collector) Handler(t testing.TB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := c.take(q); err != nil {
			t.Errorf("%s %s: %v", q.Method, q.URL, err)
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
}

func (c *Collector) take(q *http.Request) error {
	if kind := q.Header.Get("Content-Type"); q.Method != http.MethodPost || q.URL.Path != "/v1/traces" ||
		kind != "application/x-protobuf" {
		return fmt.Errorf("%s %s of %q is no export", q.Method, q.URL.Path, kind)
	}
	plain := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if plain, err = gzip.NewReader(q.Body); err != nil {
			return err
		}
	}
	body, err := io.ReadAll(plain)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range request.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				about := map[string]any{}
				for _, a := range append(r.Resource.GetAttributes(), s.Attributes...) {
					about[a.Key] = valueOf(a.Value)
				}
				c.spans = append(c.spans, Span{Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name,
					From: time.Unix(0, int64(s.StartTimeUnixNano)), Until: time.Unix(0, int64(s.EndTimeUnixNano)), About: about})
			}
		}
	}
	return nil
}

func valueOf(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	}
	return v.String()
}

// Traces returns the received spans, by trace.
func (c *Collector) Traces() map[string][]Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	traces := map[string][]Span{}
	for _, s := range c.spans {
		traces[s.Trace] = append(traces[s.Trace], s)
	}
	return traces
}
