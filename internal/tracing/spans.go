package tracing

import (
	"log/slog"
	"math/rand/v2"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// Names of the spans of a document, in order.
const (
	SpanPublish   = "publish"   // until the stream has it
	SpanStored    = "stored"    // until it is fetched
	SpanTokenized = "tokenized" // decoded and tokenized
	SpanPlanned   = "planned"   // until the step that begins with its first token is in the plan log
	SpanRead      = "read"      // the rows that begin with it are assembled for a rank and sent
)

// span tells of a part of a document's way that is over. That of its storing is the first one of a document that was sampled here.
func (t *Tracer) span(of *loader.Trace, name string, kind spans.Span_SpanKind, from, until time.Time, about ...slog.Attr) {
	if of.Ours && name == SpanStored {
		t.hand(newSpanOf(of, of.Parent, nil, name, kind, from, until, about))
		return
	}
	id := newSpan()
	s := newSpanOf(of, id, of.Parent[:], name, kind, from, until, about)
	s.Flags |= uint32(spans.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	t.hand(s)
}

func newSpanOf(of *loader.Trace, id [8]byte, parent []byte, name string, kind spans.Span_SpanKind, from, until time.Time, about []slog.Attr) *spans.Span {
	const sampled = 1 // a flag of W3C trace context
	return &spans.Span{TraceId: of.ID[:], SpanId: id[:], ParentSpanId: parent, Name: name, Kind: kind, StartTimeUnixNano: uint64(from.UnixNano()), EndTimeUnixNano: uint64(until.UnixNano()),
		Attributes: attributes(about), Flags: sampled | uint32(spans.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)}
}

// attributes are texts and whole numbers as OTLP has them.
func attributes(about []slog.Attr) []*common.KeyValue {
	list := make([]*common.KeyValue, 0, len(about))
	for _, a := range about {
		value := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: a.Value.String()}}
		if a.Value.Kind() == slog.KindInt64 {
			value.Value = &common.AnyValue_IntValue{IntValue: a.Value.Int64()}
		}
		list = append(list, &common.KeyValue{Key: a.Key, Value: value})
	}
	return list
}

// Fetched implements doclog.Tracer.
func (t *Tracer) Fetched(of *loader.Trace, stream string, sequence uint64, tokens int, stored, fetched, done time.Time) {
	where := []slog.Attr{slog.String("loaderd.stream", stream), slog.Int64("loaderd.sequence", int64(sequence))}
	if fetched.Before(stored) { // the server's clock is ahead
		stored = fetched
	}
	t.span(of, SpanStored, spans.Span_SPAN_KIND_CONSUMER, stored, fetched, where...)
	t.span(of, SpanTokenized, spans.Span_SPAN_KIND_INTERNAL, fetched, done, append(where, slog.Int("loaderd.tokens", tokens))...)
}

// Planned implements loader.Tracer.
func (t *Tracer) Planned(of *loader.Trace, document, step uint64, row int, taken, stored time.Time) {
	t.span(of, SpanPlanned, spans.Span_SPAN_KIND_INTERNAL, taken, stored, placeOf(document, step, row)...)
}

// Read implements arrowout.Tracer.
func (t *Tracer) Read(d loader.Traced, by loader.Place, step uint64, from, until time.Time) {
	about := append(placeOf(d.Document, step, d.Row), slog.String("loaderd.job", by.Job), slog.Int("loaderd.rank", by.Rank), slog.Int("loaderd.world", by.World))
	t.span(d.Trace, SpanRead, spans.Span_SPAN_KIND_SERVER, from, until, about...)
}

func placeOf(document, step uint64, row int) []slog.Attr {
	return []slog.Attr{slog.Int("loaderd.source", plan.RefSource(document)), slog.Int64("loaderd.sequence", int64(plan.RefSequence(document))),
		slog.Int64("loaderd.step", int64(step)), slog.Int("loaderd.row", row)}
}

// Publish implements publish.Tracer: a share of the documents is drawn.
func (t *Tracer) Publish(subject, id string) (header string, stored func()) {
	if rand.Uint64() >= t.below {
		return "", nil
	}
	of, from := newTrace(), time.Now()
	return traceparent(of), func() {
		about := []slog.Attr{slog.String("loaderd.subject", subject), slog.String("loaderd.id", id)}
		t.hand(newSpanOf(of, of.Parent, nil, SpanPublish, spans.Span_SPAN_KIND_PRODUCER, from, time.Now(), about))
	}
}
