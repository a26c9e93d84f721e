package arrowout

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's Prometheus metrics. Their names are part of the daemon's interface.
type metrics struct {
	streams                      prometheus.Gauge
	batches, bytes, rows, tokens prometheus.Counter
	wait, send, memory           prometheus.Counter
	cuts                         prometheus.Counter
	held                         prometheus.GaugeFunc
	waits, ages                  prometheus.Histogram
	errors                       *prometheus.CounterVec
}

// Bounds of the histograms, in seconds: a wait costs a training step, a document's time is what a producer looks at.
var (
	waitBounds = []float64{1e-4, 1e-3, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	ageBounds  = []float64{0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
)

// newMetrics registers the metrics; a nil registerer keeps them to itself.
func newMetrics(reg prometheus.Registerer, b *budget) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "loaderd_flight_" + name, Help: help})
	}
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "loaderd_flight_open_streams", Help: "DoGet streams that are open."}),
		batches: counter("batches_total", "Record batches handed to gRPC."),
		bytes:   counter("bytes_total", "Bytes of those batches, headers included."),
		rows:    counter("rows_total", "Rows of those batches."),
		tokens:  counter("tokens_total", "Tokens of those batches, padding left out."),
		wait:    counter("step_wait_seconds_total", "Seconds that streams waited for the next step of the run."),
		send:    counter("send_seconds_total", "Seconds that streams waited for clients to take batches."),
		memory:  counter("memory_wait_seconds_total", "Seconds that streams waited for the memory of their next batch (flight.send_bytes)."),
		cuts:    counter("cut_connections_total", "Connections that were cut because a reader took nothing (flight.slow_reader)."),
		held: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_flight_held_bytes",
			Help: "Bytes of batches that are assembled or being sent; at most flight.send_bytes."}, func() float64 { return float64(b.inUse()) }),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "loaderd_step_wait_seconds",
			Help: "How long streams waited for the next step of the run.", Buckets: waitBounds}),
		ages: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "loaderd_document_seconds",
			Help: "Time of documents from their stream, which had taken them, until their first tokens were sent to a rank.", Buckets: ageBounds}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loaderd_flight_errors_total", Help: "Calls that ended with an error, by reason."}, []string{"reason"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.batches, m.bytes, m.rows, m.tokens, m.wait, m.send, m.memory, m.cuts, m.held, m.waits, m.ages, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register flight metrics: %w", err)
		}
	}
	return m, nil
}

// waited notes a wait for a step.
func (m *metrics) waited(d time.Duration) {
	m.wait.Add(d.Seconds())
	m.waits.Observe(d.Seconds())
}

// sent notes a batch that gRPC has taken by now, which took so long.
func (m *metrics) sent(b sending, now time.Time, took time.Duration) {
	m.batches.Inc()
	m.bytes.Add(float64(b.message.size()))
	m.rows.Add(float64(b.Rows))
	m.tokens.Add(float64(b.Tokens))
	m.send.Add(took.Seconds())
	for _, stored := range b.begins {
		m.ages.Observe(max(now.Sub(time.Unix(0, stored)), 0).Seconds()) // the server's clock may be ahead
	}
}
