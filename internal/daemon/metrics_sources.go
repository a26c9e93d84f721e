package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/loader"
	"loaderd/loader/state"
)

// sourceMetric is a metric with one value per source, for a run with several sources.
type sourceMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(mixtureTotals, state.SourceStats) float64
}

// mixtureTotals holds the values of all sources together that the metrics of one source need.
type mixtureTotals struct {
	tokens int64 // of the documents taken, in the unit of the shares
	next   string
	dry    time.Duration // time for which the next source has had no document
}

func newSourceMetric(kind prometheus.ValueType, name, help string,
	value func(mixtureTotals, state.SourceStats) float64) sourceMetric {
	return sourceMetric{prometheus.NewDesc("loaderd_source_"+name, help, []string{"source"}, nil), kind, value}
}

var sourceMetrics = []sourceMetric{
	newSourceMetric(prometheus.CounterValue, "tokens_total", "Tokens read from the source.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Status.Tokens) }),
	newSourceMetric(prometheus.GaugeValue, "target_share", "Target share of the source in the tokens (mix.share).",
		func(_ mixtureTotals, s state.SourceStats) float64 { return s.Target }),
	newSourceMetric(prometheus.GaugeValue, "share", "Share of the source in the tokens read so far (mix.share).",
		func(m mixtureTotals, s state.SourceStats) float64 {
			return float64(s.SharedTokens()) / float64(max(m.tokens, 1))
		}),
	newSourceMetric(prometheus.GaugeValue, "epoch", "Current epoch of the source, from 0.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Epoch) }),
	newSourceMetric(prometheus.CounterValue, "documents_total", "Documents read from the source, including skipped ones.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Arrived) }),
	newSourceMetric(prometheus.CounterValue, "cut_documents_total",
		"Documents of the source cut at documents.max_tokens.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Cut) }),
	newSourceMetric(prometheus.CounterValue, "emitted_tokens_total", "Tokens of the source in steps.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Emitted) }),
	newSourceMetric(prometheus.GaugeValue, "last_sequence", "Last document in the source's stream.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Stream.Last) }),
	newSourceMetric(prometheus.GaugeValue, "next_sequence",
		"Next document of the source; 0 after the last one.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return float64(s.Next) }),
	newSourceMetric(prometheus.GaugeValue, "down", "1 while the source's stream is unreachable.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return boolValue(!s.Stream.DownSince.IsZero()) }),
	newSourceMetric(prometheus.GaugeValue, "exhausted", "1 when the source is exhausted.",
		func(_ mixtureTotals, s state.SourceStats) float64 { return boolValue(s.Exhausted) }),
	newSourceMetric(prometheus.GaugeValue, "paused",
		"1 while the other sources share the weight of this one, which has no documents (mix.on_dry: share).",
		func(_ mixtureTotals, s state.SourceStats) float64 { return boolValue(s.Paused) }),
	newSourceMetric(prometheus.GaugeValue, "dry_seconds",
		"Time for which the run has waited for a document of the source.",
		func(m mixtureTotals, s state.SourceStats) float64 {
			if s.Name != m.next {
				return 0
			}
			return m.dry.Seconds()
		}),
}

// skippedDocumentsDesc counts documents of a source that are not used.
var skippedDocumentsDesc = prometheus.NewDesc("loaderd_source_left_out_documents_total",
	"Documents of the source that were skipped, by reason: undecodable, empty, masked, duplicate, split, short, long, "+
		"filtered.",
	[]string{"source", "why"}, nil)

// collectSources collects the values of each source of a run with several sources. For a single source they equal
// those of the run. The run's Source is the one whose document is taken next.
func collectSources(out chan<- prometheus.Metric, s loader.Stats, now time.Time) {
	if len(s.Sources) < 2 {
		return
	}
	var m mixtureTotals
	next := -1
	for i, x := range s.Sources {
		m.tokens += x.SharedTokens()
		if x.Share > 0 && (next < 0 || x.Credit > s.Sources[next].Credit || x.Credit == s.Sources[next].Credit &&
			x.Name < s.Sources[next].Name) {
			next = i
		}
	}
	if next >= 0 && !s.Source.DrySince.IsZero() {
		m.next, m.dry = s.Sources[next].Name, max(now.Sub(s.Source.DrySince), 0)
	}
	for _, x := range s.Sources {
		for _, metric := range sourceMetrics {
			out <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(m, x), x.Name)
		}
		for why, n := range x.Skipped.All() {
			out <- prometheus.MustNewConstMetric(skippedDocumentsDesc, prometheus.CounterValue, float64(n), x.Name, string(why))
		}
	}
}
