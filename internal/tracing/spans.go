package tracing

import (
	"context"
	"crypto/rand"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Names of the spans of a document, in order.
const (
	SpanPublish   = "publish"   // until the stream has stored it
	SpanStored    = "stored"    // until it is fetched
	SpanTokenized = "tokenized" // decoded and tokenized
	SpanPlanned   = "planned"   // until the step with its first token is in the plan log
	SpanRead      = "read"      // the rows that contain its first tokens are assembled and sent to a rank
)

// recordSpan records a span that has ended. The first span of a document that was sampled here is SpanStored.
func (t *Tracer) recordSpan(of *document.Trace, name string, kind api.SpanKind, from, until time.Time,
	attributes ...attribute.KeyValue) {
	ctx := context.Background()
	if of.StartedByDaemon && name == SpanStored {
		ctx = context.WithValue(ctx, rootKey{}, of)
	} else {
		parent := api.SpanContextConfig{TraceID: of.ID, SpanID: of.Parent, TraceFlags: api.FlagsSampled}
		ctx = api.ContextWithRemoteSpanContext(ctx, api.NewSpanContext(parent))
	}
	_, span := t.tracer.Start(ctx, name, api.WithTimestamp(from), api.WithSpanKind(kind),
		api.WithAttributes(attributes...))
	span.End(api.WithTimestamp(until))
}

// rootKey is the key of the context in which record passes the trace of a first span to the idGenerator.
type rootKey struct{}

// idGenerator makes random ids, except for the first span of a document that was sampled here.
type idGenerator struct{}

// NewIDs returns the ids of a first span.
func (g idGenerator) NewIDs(ctx context.Context) (id api.TraceID, span api.SpanID) {
	if of, ok := ctx.Value(rootKey{}).(*document.Trace); ok {
		return of.ID, of.Parent
	}
	_, _ = rand.Read(id[:]) // never fails
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the id of another span.
func (idGenerator) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}

// Fetched implements docstream.Tracer.
func (t *Tracer) Fetched(of *document.Trace, stream string, sequence uint64, tokens int, stored, fetched,
	done time.Time) {
	position := []attribute.KeyValue{attribute.String("loaderd.stream", stream),
		attribute.Int64("loaderd.sequence", int64(sequence))}
	if fetched.Before(stored) { // the server's clock is ahead
		stored = fetched
	}
	t.recordSpan(of, SpanStored, api.SpanKindConsumer, stored, fetched, position...)
	t.recordSpan(of, SpanTokenized, api.SpanKindInternal, fetched, done,
		append(position, attribute.Int("loaderd.tokens", tokens))...)
}

// OnPlanned implements backend.Tracer.
func (t *Tracer) OnPlanned(of *document.Trace, document, step uint64, row int, taken, stored time.Time) {
	t.recordSpan(of, SpanPlanned, api.SpanKindInternal, taken, stored, rowAttributes(document, step, row)...)
}

// RecordRead implements arrowout.Tracer.
func (t *Tracer) RecordRead(d document.TracedDocument, by state.RankID, step uint64, from, until time.Time) {
	attributes := append(rowAttributes(d.Document, step, d.Row),
		attribute.String("loaderd.job", by.Job), attribute.Int("loaderd.rank", by.Rank),
		attribute.Int("loaderd.world", by.World))
	t.recordSpan(d.Trace, SpanRead, api.SpanKindServer, from, until, attributes...)
}

func rowAttributes(document, step uint64, row int) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.Int("loaderd.source", plan.RefSource(document)),
		attribute.Int64("loaderd.sequence", int64(plan.RefSequence(document))),
		attribute.Int64("loaderd.step", int64(step)), attribute.Int("loaderd.row", row)}
}

// Publish implements publish.Tracer.
func (t *Tracer) Publish(subject, id string) (traceparent string, stored func()) {
	ctx, span := t.tracer.Start(context.Background(), SpanPublish, api.WithSpanKind(api.SpanKindProducer),
		api.WithAttributes(attribute.String("loaderd.subject", subject), attribute.String("loaderd.id", id)))
	if !span.SpanContext().IsSampled() {
		return "", nil
	}
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return carrier[traceparentHeader], func() { span.End() }
}
