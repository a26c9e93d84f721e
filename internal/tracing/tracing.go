// Package tracing records the path of sampled documents from their publisher to the ranks as OpenTelemetry spans, one
// trace per document. Publishers write the W3C trace context into the document's message. Daemons sample a share of
// the documents without one. The ids of such a trace are derived from the document's position in its stream: all
// daemons make the same decision, and record spans of the same trace.
package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"loaderd/internal/build"
	"loaderd/loader/document"
	"loaderd/loader/runconfig"
)

// Config names the collector and the share of documents that are sampled.
type Config struct {
	// Endpoint is the URL of a collector that accepts OTLP over HTTP; empty: tracing is disabled.
	Endpoint string `koanf:"endpoint"`
	// Share of the documents without a trace context that are sampled: 0 to 1.
	Share float64 `koanf:"share"`
}

// Validate returns every field that is out of range.
func (c Config) Validate() (bad []runconfig.FieldError) {
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" ||
		u.Host == "") {
		bad = append(bad, runconfig.FieldError{Field: "endpoint", Value: c.Endpoint,
			Want: "the URL of a collector, such as http://127.0.0.1:4318, or nothing"})
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		bad = append(bad, runconfig.FieldError{Field: "share", Value: c.Share, Want: "0 to 1"})
	}
	return bad
}

// Tracer records spans. It never blocks: spans beyond the queue of the exporter are dropped.
type Tracer struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
	sampler  trace.Sampler
	log      *slog.Logger
}

// shutdownTimeout limits the export of the last spans.
const shutdownTimeout = 2 * time.Second

// tracesPath is the path of the protocol, used for endpoints without a path.
const tracesPath = "/v1/traces"

// retryConfig is the retry configuration for a busy collector.
var retryConfig = otlptracehttp.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond,
	MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second}

// New returns a Tracer that exports to the collector of c. It uses these OpenTelemetry variables of the environment:
// OTEL_EXPORTER_OTLP_* without the endpoint, OTEL_BSP_* and OTEL_RESOURCE_ATTRIBUTES. attributes describe the process
// in addition to its service and version. It sets OpenTelemetry's error handler for the whole process.
func New(ctx context.Context, c Config, service string, log *slog.Logger,
	attributes ...attribute.KeyValue) (*Tracer, error) {
	failures := rate.Sometimes{Interval: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		failures.Do(func() { log.Warn("cannot export traces", "error", err) })
	}))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	collector := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(c.Endpoint), otlptracehttp.WithRetry(retryConfig)}
	if u, err := url.Parse(c.Endpoint); err == nil && strings.Trim(u.Path, "/") == "" {
		collector = append(collector, otlptracehttp.WithURLPath(tracesPath))
	}
	exporter, err := otlptracehttp.New(ctx, collector...)
	if err != nil {
		return nil, fmt.Errorf("trace.endpoint %s: %w", c.Endpoint, err)
	}
	attributes = append(attributes, attribute.String("service.name", service),
		attribute.String("service.version", build.This().Version))
	process, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	sampler := trace.TraceIDRatioBased(c.Share)
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(process),
		trace.WithSampler(trace.ParentBased(sampler)), trace.WithIDGenerator(idGenerator{}))
	return &Tracer{provider: provider, tracer: provider.Tracer("loaderd"), sampler: sampler, log: log}, nil
}

// Close exports the last spans, within two seconds.
func (t *Tracer) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("lost the last traces", "error", err)
	}
}

// traceContext reads and writes the header traceparent of the W3C trace context.
var traceContext = propagation.TraceContext{}

const traceparentHeader = "traceparent"

// Sample returns the trace of a document, or nil if it is not sampled. A document with a trace context is sampled if
// its publisher sampled it. Of the other documents a share is sampled, chosen by the stream's creation time and the
// document's sequence.
func (t *Tracer) Sample(traceparent string, created time.Time, sequence uint64) *document.Trace {
	if traceparent != "" {
		publisher := api.SpanContextFromContext(traceContext.Extract(context.Background(),
			propagation.MapCarrier{traceparentHeader: traceparent}))
		if !publisher.IsSampled() {
			return nil
		}
		return &document.Trace{ID: publisher.TraceID(), Parent: publisher.SpanID()}
	}
	id := traceID(uint64(created.UnixNano()), sequence)
	if t.sampler.ShouldSample(trace.SamplingParameters{ParentContext: context.Background(),
		TraceID: id}).Decision != trace.RecordAndSample {
		return nil
	}
	return &document.Trace{StartedByDaemon: true, ID: id, Parent: rootID(id)}
}

// traceID derives the id of a trace from a document's position. The sampler decides by its last eight bytes.
func traceID(stream, sequence uint64) (id api.TraceID) {
	binary.BigEndian.PutUint64(id[:8], splitmix64(stream+sequence*0xd6e8feb86659fd93))
	binary.BigEndian.PutUint64(id[8:], splitmix64(stream^sequence*0x9e3779b97f4a7c15))
	return id
}

// rootID returns the id of the first span of such a trace.
func rootID(of api.TraceID) (id api.SpanID) {
	binary.BigEndian.PutUint64(id[:], splitmix64(binary.BigEndian.Uint64(of[:8])^splitmix64(
		binary.BigEndian.Uint64(of[8:]))))
	return id
}

// splitmix64 is the finalizer of splitmix64.
func splitmix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
