package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/tracetest"
	"loaderd/internal/tracing"
	"loaderd/stream"
	publishing "loaderd/stream/publish"
)

// A document has one trace from its publisher to the rank that reads it. For a document published without a trace,
// the daemon starts one. Unsampled documents are not traced. The metrics link to the traces.
func TestTracing_OneTracePerDocument(t *testing.T) {
	collector := tracetest.Start(t)
	c := settings(t)
	c.Trace = tracing.Config{Endpoint: collector.URL, Share: 1}
	d := start(t, c)
	row := stream.Message{Data: make([]byte, 4*1024), ContentType: stream.TypeTokens, Tokenizer: "f"}
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: collector.URL, Share: 1}, "publisher",
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p, err := publishing.New(t.Context(), d.Store(), "test", publishing.Options{Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(t.Context(), slices.Repeat([]stream.Message{row}, 4)...); err != nil { // one step
		t.Fatal(err)
	}
	if _, err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	tracer.Close(t.Context())
	refused := row
	refused.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	natstest.Publish(t, d.Store(), row, row, row, refused) // another step
	batches, result := following(t, d)
	for range 2 {
		<-batches
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.http.url()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	metrics := answer(t, q)
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	<-result

	traces := collector.Traces()
	if len(traces) != 7 {
		t.Fatalf("%d traces, want those of 7 documents", len(traces))
	}
	for id, spans := range traces {
		slices.SortFunc(spans, func(a, b tracetest.Span) int { return a.From.Compare(b.From) })
		sequence := spans[len(spans)-1].About["loaderd.sequence"].(int64)
		way := []string{tracing.SpanStored, tracing.SpanTokenized, tracing.SpanPlanned, tracing.SpanRead}
		if sequence <= 4 {
			way = append([]string{tracing.SpanPublish}, way...)
		}
		var names []string
		for i, s := range spans {
			names = append(names, s.Name)
			if (s.Parent == "") != (i == 0) || i > 0 && s.Parent != spans[0].ID {
				t.Errorf("document %d: span %s follows %q, the first one is %s", sequence, s.Name, s.Parent, spans[0].ID)
			}
			if service := s.About["service.name"]; service != map[bool]any{true: "publisher",
				false: "loaderd"}[s.Name == tracing.SpanPublish] {
				t.Errorf("document %d: span %s is of service %v", sequence, s.Name, service)
			}
			if step, there := s.About["loaderd.step"]; there && step != (sequence-1)/4 {
				t.Errorf("document %d: span %s is of step %v", sequence, s.Name, step)
			}
		}
		if strings.Join(names, " ") != strings.Join(way, " ") {
			t.Errorf("trace %s of document %d has the spans %v, want %v", id, sequence, names, way)
		}
	}
	for _, name := range []string{"loaderd_step_wait_seconds", "loaderd_document_seconds"} {
		found := regexp.MustCompile(name + `_bucket\{[^}]*\} \d+ # \{trace_id="([0-9a-f]{32})"\}`).FindStringSubmatch(metrics)
		if found == nil || traces[found[1]] == nil {
			t.Errorf("%s has the exemplar %q, want one of a trace:\n%s", name, found, metrics)
		}
	}
}

// answer returns the response to a request.
func answer(t *testing.T, q *http.Request) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if _, err := fmt.Fprint(&text, resp.Status, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
