// Package tracetest is an OpenTelemetry collector for tests: it decodes what it is sent, and keeps it.
package tracetest

import (
	"encoding/hex"
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

// Collector takes spans until the test ends.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

// Span is a span as the collector got it.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is empty for a root
	Name              string
	From, Until       time.Time
	About             map[string]any // attributes, with those of the resource
}

// Start starts a collector.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := c.take(q); err != nil {
			t.Errorf("%s %s: %v", q.Method, q.URL, err)
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(q *http.Request) error {
	body, err := io.ReadAll(q.Body)
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
				c.spans = append(c.spans, Span{Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name,
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

// Traces are the spans that have come, by their traces.
func (c *Collector) Traces() map[string][]Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	traces := map[string][]Span{}
	for _, s := range c.spans {
		traces[s.Trace] = append(traces[s.Trace], s)
	}
	return traces
}
