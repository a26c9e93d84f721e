package daemon

import "github.com/prometheus/client_golang/prometheus"

// pullMetrics collects the progress of pulled sources.
type pullMetrics struct{ pulls *pullerSet }

var (
	pullObjects = prometheus.NewDesc("loaderd_pull_objects",
		"Objects in the listing of a source that daemons fetch.", []string{"source"}, nil)
	pullRead = prometheus.NewDesc("loaderd_pull_objects_read_total", "Objects of the listing that were read completely.",
		[]string{"source"}, nil)
	pullBytes = prometheus.NewDesc("loaderd_pull_bytes", "Stored bytes of the objects in the listing.",
		[]string{"source"}, nil)
	pullBytesRead = prometheus.NewDesc("loaderd_pull_bytes_read_total", "Bytes read from the objects.", []string{"source"},
		nil)
	pullDocuments = prometheus.NewDesc("loaderd_pull_documents_total", "Documents published to the source's stream.",
		[]string{"source"}, nil)
	pullLeftOut = prometheus.NewDesc("loaderd_pull_left_out_total", "Lines, rows and objects that are not documents.",
		[]string{"source"}, nil)
	pullTrouble = prometheus.NewDesc("loaderd_pull_trouble",
		"1 while an error stops reading from the source.", []string{"source"}, nil)
	pullWaits = prometheus.NewDesc("loaderd_pull_waits",
		"1 while the source waits for space in its stream or for new objects.", []string{"source"}, nil)
)

// Describe implements prometheus.Collector.
func (m pullMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pullObjects, pullRead, pullBytes, pullBytesRead, pullDocuments, pullLeftOut,
		pullTrouble, pullWaits} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m pullMetrics) Collect(out chan<- prometheus.Metric) {
	for _, s := range m.pulls.status() {
		show := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
			out <- prometheus.MustNewConstMetric(d, kind, value, s.Source)
		}
		show(pullObjects, prometheus.GaugeValue, float64(s.Objects))
		show(pullRead, prometheus.CounterValue, float64(s.Read))
		show(pullBytes, prometheus.GaugeValue, float64(s.Bytes))
		show(pullBytesRead, prometheus.CounterValue, float64(s.BytesRead))
		show(pullDocuments, prometheus.CounterValue, float64(s.Documents))
		show(pullLeftOut, prometheus.CounterValue, float64(s.LeftOut))
		show(pullTrouble, prometheus.GaugeValue, boolValue(s.Trouble != ""))
		show(pullWaits, prometheus.GaugeValue, boolValue(s.Waits != "" && !s.Complete))
	}
}
