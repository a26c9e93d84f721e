package tracing_test

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"loaderd/internal/tracetest"
	"loaderd/internal/tracing"
	"loaderd/loader/document"
	"loaderd/loader/state"
	"loaderd/tokenizer"
)

var created = time.Unix(1_800_000_000, 123)

func open(t testing.TB, url string, share float64) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: url, Share: share}, "test",
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

// A producer's sampling decision takes precedence over the share, and an invalid header has no trace.
func TestSample_ProducerDecisionTakesPrecedence(t *testing.T) {
	c := tracetest.Start(t)
	for _, share := range []float64{0, 1} {
		tracer := open(t, c.URL, share)
		defer tracer.Close(t.Context())
		x := tracer.Sample("00-"+traceID+"-"+spanID+"-01", created, 1)
		if x == nil || hex.EncodeToString(x.ID[:]) != traceID || hex.EncodeToString(x.Parent[:]) != spanID ||
			x.StartedByDaemon {
			t.Errorf("a sampled document has the trace %+v", x)
		}
		for _, header := range []string{"00-" + traceID + "-" + spanID + "-00", "00-" + traceID, "x",
			"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", strings.Repeat("00-", 10_000)} {
			if x := tracer.Sample(header, created, 1); x != nil {
				t.Errorf("header %.60q has the trace %+v", header, x)
			}
		}
	}
}

// A share of the other documents is sampled, with the same decision in every daemon, and all ids are distinct.
func TestSample_ShareIsDeterministic(t *testing.T) {
	c := tracetest.Start(t)
	const documents = 100_000
	for _, share := range []float64{0, 0.01, 0.5, 1} {
		one, other := open(t, c.URL, share), open(t, c.URL, share)
		defer one.Close(t.Context())
		defer other.Close(t.Context())
		seen := map[document.Trace]bool{}
		for n := range uint64(documents) {
			x := one.Sample("", created, n)
			if n < 1000 {
				y := other.Sample("", created, n)
				if (x == nil) != (y == nil) || x != nil && *x != *y {
					t.Fatalf("document %d has the traces %v and %v", n, x, y)
				}
			}
			if x != nil {
				seen[*x] = true
			}
		}
		if off := math.Abs(float64(len(seen)) - share*documents); off > 4*math.Sqrt(share*(1-share)*documents) {
			t.Errorf("%d of %d documents are sampled, want %v", len(seen), documents, share)
		}
	}
	if a, b := open(t, c.URL, 1).Sample("", created, 1), open(t, c.URL, 1).Sample("", created.Add(1), 1); *a == *b {
		t.Error("the first documents of two streams have one trace")
	}
}

// The spans of a document belong to one trace. The first span is the publisher's, or else SpanStored; the other spans
// are its children.
func TestTracer_SpansOfDocumentShareTrace(t *testing.T) {
	c := tracetest.Start(t)
	tracer := open(t, c.URL, 1)
	header, stored := tracer.Publish("docs.web", "a")
	published := tracer.Sample(header, created, 1)
	ours := tracer.Sample("", created, 2)
	if published == nil || ours == nil {
		t.Fatalf("traces are %v and %v", published, ours)
	}
	stored()
	at := time.Now()
	for i, x := range []*document.Trace{published, ours} {
		sequence := uint64(i + 1)
		// in order of arrival, another daemon's first
		tracer.RecordRead(document.TracedDocument{Trace: x, Document: sequence, Row: 3},
			state.RankID{Job: "j", Rank: 1, World: 2}, 7,
			at.Add(3), at.Add(4))
		tracer.OnPlanned(x, sequence, 7, 3, at.Add(2), at.Add(3))
		tracer.Fetched(x, "DOCS", sequence, 99, at, at.Add(1), at.Add(2))
	}
	tracer.Close(t.Context())
	traces := c.Traces()
	if len(traces) != 2 {
		t.Fatalf("%d traces, want 2: %v", len(traces), traces)
	}
	for i, x := range []*document.Trace{published, ours} {
		spans, root := map[string]tracetest.Span{}, []string{tracing.SpanPublish, tracing.SpanStored}[i]
		for _, s := range traces[hex.EncodeToString(x.ID[:])] {
			spans[s.Name] = s
		}
		if len(spans) != 5-i {
			t.Errorf("%d spans: %v", len(spans), spans)
		}
		for name, s := range spans {
			want := spans[root].ID
			if name == root {
				want = ""
			}
			if s.Parent != want {
				t.Errorf("span %s follows %q, want %q", name, s.Parent, want)
			}
		}
		for name, want := range map[string][2]time.Duration{tracing.SpanStored: {0, 1}, tracing.SpanTokenized: {1, 2},
			tracing.SpanPlanned: {2, 3}, tracing.SpanRead: {3, 4}} {
			if s := spans[name]; !s.From.Equal(at.Add(want[0])) || !s.Until.Equal(at.Add(want[1])) {
				t.Errorf("span %s lasts from %s to %s, want %v", name, s.From, s.Until, want)
			}
		}
		about := spans[tracing.SpanRead].About
		if got := fmt.Sprintln(about["loaderd.sequence"], about["loaderd.step"], about["loaderd.row"], about["loaderd.job"],
			about["loaderd.rank"], about["loaderd.world"]); got != fmt.Sprintln(i+1, 7, 3, "j", 1, 2) {
			t.Errorf("the span of its reading is about %v", about)
		}
	}
}

// An unreachable collector causes no delay and no failure.
func TestTracer_UnreachableCollectorCausesNoDelay(t *testing.T) {
	tracer := open(t, "http://127.0.0.1:1", 1)
	for n := range uint64(10_000) { // more than the queue holds
		tracer.OnPlanned(tracer.Sample("", created, n), n, 0, 0, created, created)
	}
	tracer.Close(t.Context())
}

func FuzzSample(f *testing.F) {
	f.Add("00-" + traceID + "-" + spanID + "-01")
	f.Add("")
	f.Add("ff-" + traceID + "-" + spanID + "-01-x")
	tracer := open(f, "http://127.0.0.1:1", 0)
	f.Fuzz(func(t *testing.T, header string) {
		x := tracer.Sample(header, created, 1)
		if x != nil && (x.ID == [16]byte{} || x.Parent == [8]byte{} ||
			!strings.Contains(header, hex.EncodeToString(x.ID[:]))) {
			t.Errorf("header %q has the trace %+v", header, x)
		}
	})
}

// BenchmarkSample measures the time per document that is not sampled while tracing is enabled. of_document is its
// ratio to tokenizing a document of 4 KB.
func BenchmarkSample(b *testing.B) {
	tracer := open(b, "http://127.0.0.1:1", 1e-6)
	defer tracer.Close(b.Context())
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		tracer.Sample("", created, n)
		n++
	}
	each := b.Elapsed() / time.Duration(b.N)
	if b.N < 1000 {
		return
	}
	tok, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, text := tok.NewEncoder(), []byte(strings.Repeat("This is a document about nothing at all. ", 100))
	const times = 200
	start := time.Now()
	var ids []int32
	for range times {
		ids = e.Encode(ids[:0], text)
	}
	b.ReportMetric(float64(each)/(float64(time.Since(start))/times), "of_document")
}
