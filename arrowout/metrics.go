package arrowout

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/arrowout/internal/session"
	"loaderd/loader/document"
)

// metrics are the server's Prometheus metrics. Their names are part of the daemon's interface.
type metrics struct {
	streams                      prometheus.GaugeFunc
	batches, bytes, rows, tokens prometheus.Counter
	wait, send, memory           prometheus.Counter
	cuts                         prometheus.CounterFunc
	held                         prometheus.GaugeFunc
	waits                        prometheus.Histogram
	ages                         *ages
	errors                       *prometheus.CounterVec
}

// waitBounds are the upper bounds of the histogram of waits, in seconds.
var waitBounds = []float64{1e-4, 1e-3, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

// newMetrics registers the metrics; with a nil registerer they are not registered.
func newMetrics(reg prometheus.Registerer, sessions *session.Registry) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "loaderd_flight_" + name, Help: help})
	}
	m := &metrics{
		streams: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_flight_open_streams",
			Help: "DoGet streams that are open."},
			func() float64 { return float64(sessions.Streams()) }),
		batches: counter("batches_total", "Record batches handed to gRPC."),
		bytes:   counter("bytes_total", "Bytes of the batches handed to gRPC, headers included."),
		rows:    counter("rows_total", "Rows of the batches handed to gRPC."),
		tokens:  counter("tokens_total", "Tokens of the batches handed to gRPC, padding left out."),
		wait:    counter("step_wait_seconds_total", "Seconds that streams waited for the next step of the run."),
		send:    counter("send_seconds_total", "Seconds that streams waited for clients to take batches."),
		memory: counter("memory_wait_seconds_total",
			"Seconds that streams waited for the memory of their next batch (flight.send_bytes)."),
		cuts: prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "loaderd_flight_cut_connections_total",
			Help: "Connections that were cut because a reader took nothing (flight.slow_reader).",
		}, func() float64 { return float64(sessions.Cuts()) }),
		held: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_flight_held_bytes",
			Help: "Bytes of batches that are assembled or being sent; at most flight.send_bytes."}, func() float64 {
			return float64(sessions.Held())
		}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "loaderd_step_wait_seconds",
			Help: "How long streams waited for the next step of the run.", Buckets: waitBounds}),
		ages: newAges(),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loaderd_flight_errors_total", Help: "Calls that ended with an error, by reason."}, []string{"reason"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.batches, m.bytes, m.rows, m.tokens, m.wait, m.send, m.memory,
		m.cuts, m.held, m.waits, m.ages, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register flight metrics: %w", err)
		}
	}
	return m, nil
}

// waited records a wait for a step, and the sampled documents that begin in the step.
func (m *metrics) waited(d time.Duration, traced []document.Traced) {
	m.wait.Add(d.Seconds())
	if len(traced) == 0 {
		m.waits.Observe(d.Seconds())
		return
	}
	m.waits.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), exemplarOf(traced[0]))
}

// sent records a batch that gRPC has taken, and the duration of the send.
func (m *metrics) sent(b sending, now time.Time, took time.Duration) {
	m.batches.Inc()
	m.bytes.Add(float64(b.message.Size()))
	m.rows.Add(float64(b.Rows))
	m.tokens.Add(float64(b.Tokens))
	m.send.Add(took.Seconds())
	m.ages.add(now, b.begins)
	for _, d := range b.traced {
		m.ages.exemplify(now, d)
	}
}
