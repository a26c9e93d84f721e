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
	newStreamMetric("bytes", "Bytes that the document stream holds.",
		func(f state.StreamFill) float64 { return float64(f.Bytes) }),
	newStreamMetric("max_bytes", "Bytes that the document stream may hold; 0 where nothing bounds it.",
		func(f state.StreamFill) float64 { return float64(f.MaxBytes) }),
	newStreamMetric("full", "1 while the document stream may have no room for the next document, so that producers wait.",
		func(f state.StreamFill) float64 { return boolValue(f.Full) }),
}
