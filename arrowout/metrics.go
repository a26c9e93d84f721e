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
	streams                                         prometheus.GaugeFunc
	batches, bytes, rows, tokens                    prometheus.Counter
	stepWaitSeconds, sendSeconds, memoryWaitSeconds prometheus.Counter
	cutConnections                                  prometheus.CounterFunc
	heldBytes                                       prometheus.GaugeFunc
	stepWaits                                       prometheus.Histogram
	documentAges                                    *ageHistogram
	errors                                          *prometheus.CounterVec
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
			Help: "Open DoGet streams."},
			func() float64 { return float64(sessions.StreamCount()) }),
		batches:         counter("batches_total", "Record batches passed to gRPC."),
		bytes:           counter("bytes_total", "Bytes of the batches passed to gRPC, headers included."),
		rows:            counter("rows_total", "Rows of the batches passed to gRPC."),
		tokens:          counter("tokens_total", "Tokens of the batches passed to gRPC, without padding."),
		stepWaitSeconds: counter("step_wait_seconds_total", "Seconds that streams waited for the next step of the run."),
		sendSeconds:     counter("send_seconds_total", "Seconds that streams waited for clients to receive batches."),
		memoryWaitSeconds: counter("memory_wait_seconds_total",
			"Seconds that streams waited for the memory of their next batch (flight.send_bytes)."),
		cutConnections: prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "loaderd_flight_cut_connections_total",
			Help: "Connections closed because a reader received nothing (flight.slow_reader_timeout).",
		}, func() float64 { return float64(sessions.CutConnections()) }),
		heldBytes: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_flight_held_bytes",
			Help: "Bytes of batches that are being assembled or sent; at most flight.send_bytes."}, func() float64 {
			return float64(sessions.HeldBytes())
		}),
		stepWaits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "loaderd_step_wait_seconds",
			Help: "Duration of waits of streams for the next step of the run.", Buckets: waitBounds}),
		documentAges: newAgeHistogram(),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loaderd_flight_errors_total", Help: "Calls that ended with an error, by reason."}, []string{"reason"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.batches, m.bytes, m.rows, m.tokens, m.stepWaitSeconds,
		m.sendSeconds, m.memoryWaitSeconds,
		m.cutConnections, m.heldBytes, m.stepWaits, m.documentAges, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register flight metrics: %w", err)
		}
	}
	return m, nil
}

// observeWait records a wait for a step, and the sampled documents that begin in the step.
func (m *metrics) observeWait(d time.Duration, traced []document.TracedDocument) {
	m.stepWaitSeconds.Add(d.Seconds())
	if len(traced) == 0 {
		m.stepWaits.Observe(d.Seconds())
		return
	}
	m.stepWaits.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), exemplarLabels(traced[0]))
}

// observeSent records a batch that gRPC has taken, and the duration of the send.
func (m *metrics) observeSent(b outgoingBatch, now time.Time, took time.Duration) {
	m.batches.Inc()
	m.bytes.Add(float64(b.message.Size()))
	m.rows.Add(float64(b.Rows))
	m.tokens.Add(float64(b.Tokens))
	m.sendSeconds.Add(took.Seconds())
	m.documentAges.observe(now, b.storedTimes)
	for _, d := range b.tracedDocuments {
		m.documentAges.setExemplar(now, d)
	}
}
