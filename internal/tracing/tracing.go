// Package tracing follows sampled documents from their producer to the ranks: a trace each, handed to an OpenTelemetry collector. Producers write the W3C
// trace context into a document's message. Of documents without one a share is sampled by their place in their stream, which is also what the trace's ids
// are made of: so all daemons that meet a document sample it alike, and their spans are of one trace, without a word between them.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"loaderd/internal/build"
	"loaderd/loader"
	"loaderd/loader/plan"
)

// Config says which documents are traced, and who gets their traces.
type Config struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP; empty: nothing is traced.
	Endpoint string `koanf:"endpoint"`
	// Share of the documents that are sampled here, of those whose producer has not decided: 0 to 1.
	Share float64 `koanf:"share"`
}

// Validate returns every field that is out of range.
func (c Config) Validate() (bad []plan.FieldError) {
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		bad = append(bad, plan.FieldError{Field: "endpoint", Value: c.Endpoint, Want: "the URL of a collector, such as http://127.0.0.1:4318, or nothing"})
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		bad = append(bad, plan.FieldError{Field: "share", Value: c.Share, Want: "0 to 1"})
	}
	return bad
}

// Tracer makes spans of what it is told. It never blocks: spans that the collector does not take in time are dropped.
type Tracer struct {
	collector *collector
	about     []*common.KeyValue // of whom the spans are
	log       *slog.Logger
	below     uint64 // documents whose draw is less are sampled

	waiting   chan *spans.Span
	closing   chan struct{}
	closeOnce sync.Once
	exported  chan struct{} // closed with the last export
	told      time.Time     // when the log was last told of an error; for export alone
	ctx       context.Context
	cancel    context.CancelFunc
}

// New makes a tracer whose spans say that they are of a service, such as loaderd, with these attributes and those of OTEL_RESOURCE_ATTRIBUTES. Errors of the
// collector go to the log, once a minute.
func New(ctx context.Context, c Config, service string, log *slog.Logger, about ...slog.Attr) (*Tracer, error) {
	collector, err := newCollector(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("trace.endpoint %s: %w", c.Endpoint, err)
	}
	others, err := readPairs("OTEL_RESOURCE_ATTRIBUTES", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, err
	}
	about = append(about, slog.String("service.name", service), slog.String("service.version", build.This().Version))
	for name, value := range others {
		if !slices.ContainsFunc(about, func(a slog.Attr) bool { return a.Key == name }) {
			about = append(about, slog.String(name, value))
		}
	}
	t := &Tracer{collector: collector, about: attributes(about), log: log, waiting: make(chan *spans.Span, mostWaiting), closing: make(chan struct{}), exported: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	switch {
	case c.Share >= 1:
		t.below = math.MaxUint64
	case c.Share > 0:
		t.below = uint64(c.Share * math.MaxUint64)
	}
	go t.export()
	return t, nil
}

// Sample implements doclog.Tracer.
func (t *Tracer) Sample(traceparent string, created time.Time, sequence uint64) *loader.Trace {
	if traceparent != "" {
		return readTraceparent(traceparent)
	}
	if draw(uint64(created.UnixNano()), sequence) >= t.below {
		return nil
	}
	x := &loader.Trace{Ours: true}
	hash := originOf(created, sequence)
	copy(x.ID[:], hash[:])
	copy(x.Parent[:], hash[len(x.ID):])
	return x
}

// draw is even over all numbers (the finalizer of splitmix64).
func draw(stream, sequence uint64) uint64 {
	x := stream ^ sequence*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// originOf is what the ids of a document that was sampled here are made of.
func originOf(created time.Time, sequence uint64) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64([]byte("loaderd trace"), uint64(created.UnixNano()))
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, sequence))
}
