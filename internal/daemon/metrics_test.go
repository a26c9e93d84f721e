package daemon

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Every metric of a run stands in the operator's page.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(m interface{ String() string }, labels string) {
		name := strings.Split(m.String(), `"`)[1] + labels
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operations.md lacks %s", name)
		}
	}
	for _, m := range metrics {
		documented(m.desc, "")
	}
	for _, m := range bucketMetrics {
		documented(m.desc, "{bucket}")
	}
	documented(ended, "{end}")
	documented(silent, "")
}

// spliceCounts collects what splice counts.
type spliceCounts map[string]int64

func (c spliceCounts) Describe(chan<- *prometheus.Desc)     {}
func (c spliceCounts) Collect(out chan<- prometheus.Metric) { collectSplice(out, c) }

// What splice counts comes out by how rows ended; other methods count nothing.
func TestSpliceMetrics(t *testing.T) {
	collect := func(c spliceCounts) map[string]float64 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				name := f.GetName()
				for _, l := range m.Label {
					name = l.GetValue()
				}
				have[name] = m.Counter.GetValue()
			}
		}
		return have
	}
	have := collect(spliceCounts{"rows_ended_related": 5, "rows_unrelated": 2, "documents_silent": 7})
	if want := map[string]float64{"related": 5, "unrelated": 2, "loaderd_splice_silent_documents_total": 7}; !maps.Equal(have, want) {
		t.Errorf("metrics are %v, want %v", have, want)
	}
	if have := collect(nil); len(have) > 0 {
		t.Errorf("another method has metrics %v", have)
	}
}
