package tracing

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Spans wait for so long, or until so many are together, and so many may wait: what OpenTelemetry's specification gives exporters.
const (
	exportEvery  = 5 * time.Second
	mostTogether = 512
	mostWaiting  = 2048
)

// hand queues a span, or drops it where the collector does not keep up.
func (t *Tracer) hand(s *spans.Span) {
	select {
	case t.waiting <- s:
	default:
	}
}

// export hands spans to the collector until the tracer is closed, and then what still waits.
func (t *Tracer) export() {
	defer close(t.exported)
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	var batch []*spans.Span
	for {
		select {
		case s := <-t.waiting:
			if batch = append(batch, s); len(batch) < mostTogether {
				continue
			}
		case <-tick.C:
		case <-t.closing:
			for range len(t.waiting) {
				batch = append(batch, <-t.waiting)
			}
			t.send(batch)
			return
		}
		t.send(batch)
		batch = batch[:0]
	}
}

// patience is how long a collector may say that it takes nothing now; spans wait meanwhile. Nobody who closes the tracer waits for that.
const patience = 30 * time.Second

// take has the collector take spans, in several attempts where it takes nothing now.
func (t *Tracer) take(of *spans.TracesData) error {
	pauses := backoff.NewExponentialBackOff()
	for began := time.Now(); ; {
		err := t.collector.take(t.ctx, of)
		var busy *busyError
		if !errors.As(err, &busy) {
			return err
		}
		pause := max(pauses.NextBackOff(), busy.after)
		if time.Since(began)+pause > patience {
			return err
		}
		select {
		case <-time.After(pause):
		case <-t.closing:
			return err
		}
	}
}

// send tells of spans that the collector does not take once a minute.
func (t *Tracer) send(batch []*spans.Span) {
	if len(batch) == 0 {
		return
	}
	scope := &spans.ScopeSpans{Scope: &common.InstrumentationScope{Name: "loaderd"}, Spans: batch}
	err := t.take(&spans.TracesData{ResourceSpans: []*spans.ResourceSpans{{Resource: &resource.Resource{Attributes: t.about}, ScopeSpans: []*spans.ScopeSpans{scope}}}})
	if err != nil && time.Since(t.told) >= time.Minute {
		t.told = time.Now()
		t.log.Warn("the collector does not take traces", "spans", len(batch), "error", err)
	}
}

// farewell bounds how long the collector may take for the last spans.
const farewell = 2 * time.Second

// Close hands over what is left, as far as the collector takes it.
func (t *Tracer) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	t.closeOnce.Do(func() { close(t.closing) })
	select {
	case <-t.exported:
	case <-ctx.Done():
		t.log.Warn("the last traces are lost", "error", ctx.Err())
	}
	t.cancel()
}
