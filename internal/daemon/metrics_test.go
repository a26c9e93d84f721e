package daemon

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// All metrics of a daemon have the label run. No two metrics have the same name in OpenMetrics, which drops the
// suffix _total of counters.
func TestMetrics_RunLabelAndUniqueNames(t *testing.T) {
	c := settings(t)
	d := start(t, c)
	defer func() {
		if err := stop(d, 20*time.Second); err != nil {
			t.Error(err)
		}
	}()
	families, err := d.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "loaderd_") {
			continue
		}
		short := strings.TrimSuffix(f.GetName(), "_total")
		if names[short] {
			t.Errorf("two metrics are %s in OpenMetrics", short)
		}
		names[short] = true
		for _, m := range f.Metric {
			run := ""
			for _, l := range m.Label {
				if l.GetName() == "run" {
					run = l.GetValue()
				}
			}
			if run != c.Run {
				t.Errorf("%s is of run %q, want %q", f.GetName(), run, c.Run)
			}
		}
	}
	if len(names) < 60 {
		t.Errorf("%d metrics", len(names))
	}
}

// sourceCounts collects the values of sources.
type sourceCounts struct{ loader.Stats }

func (c sourceCounts) Describe(chan<- *prometheus.Desc) {}
func (c sourceCounts) Collect(out chan<- prometheus.Metric) {
	collectSources(out, c.Stats, time.Unix(100, 0))
}

// Each source has its own values. The source whose document is taken next is the one reported as dry.
func TestMetrics_PerSource(t *testing.T) {
	code := state.SourceStats{Status: mixture.Status{Name: "code", Target: 0.25, Share: 0.25, Tokens: 60,
		Credit: 9, Epoch: 2}}
	code.Skipped.Add(plan.SkipEmpty, 1)
	code.Skipped.Add(plan.SkipSplit, 2)
	code.Skipped.Add(plan.SkipLong, 3)
	web := state.SourceStats{Status: mixture.Status{Name: "web", Target: 0.75, Share: 0.75, Tokens: 140, Credit: -9}}
	done := state.SourceStats{Status: mixture.Status{Name: "done", Paused: true, Credit: 20}}
	have := gathered(t, sourceCounts{loader.Stats{Sources: []state.SourceStats{web, code, done},
		Source: document.SourceStatus{DrySince: time.Unix(93, 0)}}})
	for name, want := range map[string]float64{
		"loaderd_source_tokens_total code": 60, "loaderd_source_tokens_total web": 140,
		"loaderd_source_target_share code": 0.25, "loaderd_source_share code": 0.3,
		"loaderd_source_epoch code": 2, "loaderd_source_paused done": 1, "loaderd_source_paused web": 0,
		"loaderd_source_dry_seconds code": 7,
		"loaderd_source_dry_seconds web":  0, "loaderd_source_dry_seconds done": 0,
		"loaderd_source_left_out_documents_total code empty": 1,
		"loaderd_source_left_out_documents_total code split": 2, "loaderd_source_left_out_documents_total code long": 3,
		"loaderd_source_left_out_documents_total web duplicate": 0,
	} {
		if got, there := have[name]; got != want || !there {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if have := gathered(t, sourceCounts{}); len(have) > 0 {
		t.Errorf("a run with one document stream has figures of sources: %v", have)
	}
}

// gathered returns the values of metrics by name and labels.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
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
				name += " " + l.GetValue()
			}
			have[name] = m.Counter.GetValue() + m.Gauge.GetValue()
		}
	}
	return have
}

// spliceCounts collects the counters of splice.
type spliceCounts map[string]int64

func (c spliceCounts) Describe(chan<- *prometheus.Desc)     {}
func (c spliceCounts) Collect(out chan<- prometheus.Metric) { collectSplice(out, c) }

// Splice rows are counted by the way they ended. Other methods have no such counters.
func TestMetrics_SpliceRows(t *testing.T) {
	have := gathered(t, spliceCounts{"rows_ended_related": 5, "rows_unrelated": 2, "documents_silent": 7})
	if want := map[string]float64{"loaderd_splice_rows_total related": 5, "loaderd_splice_rows_total unrelated": 2,
		"loaderd_splice_unhinted_documents_total": 7}; !maps.Equal(have, want) {
		t.Errorf("metrics are %v, want %v", have, want)
	}
	if have := gathered(t, spliceCounts(nil)); len(have) > 0 {
		t.Errorf("another method has metrics %v", have)
	}
}
