package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"loaderd/stream/deadletter"
)

// deadLetters counts the dead letters that the streams hold. The numbers of reasons and sources are bounded. The name
// loaderd_dead_letters is not available: OpenMetrics gives it to the counter loaderd_dead_letters_total.
var deadLetters = prometheus.NewDesc("loaderd_dead_letters_held",
	"Dead letters in the stream, which drops its oldest, by reason and source. Delayed by seconds, and equal on "+
		"all daemons.",
	[]string{"reason", "source"}, nil)

// deadLetterMetrics collects the counts of tallies.
type deadLetterMetrics struct{ tallies *deadletter.Tallies }

// Describe implements prometheus.Collector.
func (m deadLetterMetrics) Describe(out chan<- *prometheus.Desc) { out <- deadLetters }

// Collect implements prometheus.Collector.
func (m deadLetterMetrics) Collect(out chan<- prometheus.Metric) {
	m.tallies.Each(func(source string, s deadletter.Summary) {
		for _, r := range s.Reasons {
			out <- prometheus.MustNewConstMetric(deadLetters, prometheus.GaugeValue, float64(r.Letters), r.Reason, source)
		}
	})
}
