package tracing

import (
	"context"
	"crypto/rand"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"loaderd/loader"
)

// ids draws the ids of spans, but for the first span of a document that was sampled here: its id is the one that the others name as their parent.
type ids struct{}

var _ sdk.IDGenerator = ids{}

type beginKey struct{}

// begins lets the next root span that is started be the one that the other spans of a trace follow.
func begins(ctx context.Context, t *loader.Trace) context.Context {
	return context.WithValue(ctx, beginKey{}, t)
}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	if t, ok := ctx.Value(beginKey{}).(*loader.Trace); ok {
		return t.ID, t.Parent
	}
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // which never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (span trace.SpanID) {
	for !span.IsValid() {
		_, _ = rand.Read(span[:])
	}
	return span
}
