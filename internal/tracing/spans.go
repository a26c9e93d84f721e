package tracing

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

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

// span tells of a part of a document's way that is over.
func (t *Tracer) span(of *loader.Trace, name string, kind trace.SpanKind, from, until time.Time, about ...attribute.KeyValue) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: of.ID, SpanID: of.Parent, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	if of.Ours && name == SpanStored {
		ctx = begins(context.Background(), of)
	}
	_, s := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithSpanKind(kind), trace.WithAttributes(about...))
	s.End(trace.WithTimestamp(until))
}

// Fetched implements doclog.Tracer.
func (t *Tracer) Fetched(of *loader.Trace, stream string, sequence uint64, tokens int, stored, fetched, done time.Time) {
	where := []attribute.KeyValue{attribute.String("loaderd.stream", stream), attribute.Int64("loaderd.sequence", int64(sequence))}
	if fetched.Before(stored) { // the server's clock is ahead
		stored = fetched
	}
	t.span(of, SpanStored, trace.SpanKindConsumer, stored, fetched, where...)
	t.span(of, SpanTokenized, trace.SpanKindInternal, fetched, done, append(where, attribute.Int("loaderd.tokens", tokens))...)
}

// Planned implements loader.Tracer.
func (t *Tracer) Planned(of *loader.Trace, document, step uint64, row int, taken, stored time.Time) {
	t.span(of, SpanPlanned, trace.SpanKindInternal, taken, stored, placeOf(document, step, row)...)
}

// Read implements arrowout.Tracer.
func (t *Tracer) Read(d loader.Traced, by loader.Place, step uint64, from, until time.Time) {
	about := append(placeOf(d.Document, step, d.Row), attribute.String("loaderd.job", by.Job), attribute.Int("loaderd.rank", by.Rank), attribute.Int("loaderd.world", by.World))
	t.span(d.Trace, SpanRead, trace.SpanKindServer, from, until, about...)
}

func placeOf(document, step uint64, row int) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.Int("loaderd.source", plan.RefSource(document)), attribute.Int64("loaderd.sequence", int64(plan.RefSequence(document))),
		attribute.Int64("loaderd.step", int64(step)), attribute.Int("loaderd.row", row)}
}

// Publish implements publish.Tracer: a share of the documents is drawn.
func (t *Tracer) Publish(subject, id string) (traceparent string, stored func()) {
	if rand.Uint64() >= t.below {
		return "", nil
	}
	ctx, s := t.tracer.Start(context.Background(), SpanPublish, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("loaderd.subject", subject), attribute.String("loaderd.id", id)))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], func() { s.End() }
}

// telling is an exporter whose errors go to a log, once a minute, and nowhere else.
type telling struct {
	sdk.SpanExporter
	log  *slog.Logger
	told atomic.Int64 // when, in seconds since 1970
}

// ExportSpans implements sdk.SpanExporter.
func (e *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if now := time.Now().Unix(); err != nil && now-e.told.Load() >= 60 {
		e.told.Store(now)
		e.log.Warn("the collector does not take traces", "spans", len(spans), "error", err)
	}
	return nil
}
