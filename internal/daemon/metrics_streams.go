package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"loaderd/loader/state"
)

// streamMetric is a gauge with one value per document stream.
type streamMetric struct {
	desc  *prometheus.Desc
	value func(state.StreamFill) float64
}

func newStreamMetric(name, help string, value func(state.StreamFill) float64) streamMetric {
	return streamMetric{prometheus.NewDesc("loaderd_stream_"+name, help, []string{"stream", "source"}, nil), value}
}

var streamMetrics = []streamMetric{
	newStreamMetric("bytes", "Size of the document stream in bytes.",
		func(f state.StreamFill) float64 { return float64(f.Bytes) }),
	newStreamMetric("max_bytes", "Maximum size of the document stream in bytes; 0 without a bound.",
		func(f state.StreamFill) float64 { return float64(f.MaxBytes) }),
	newStreamMetric("full", "1 while the document stream may lack space for the next document, and producers wait.",
		func(f state.StreamFill) float64 { return boolValue(f.Full) }),
}
