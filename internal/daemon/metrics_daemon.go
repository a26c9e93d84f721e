package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"loaderd/internal/build"
	"loaderd/loader/diagnosis"
)

// daemonMetrics collects this daemon's role in its run.
type daemonMetrics struct {
	leads   func() bool
	term    func() uint64
	verdict func() diagnosis.Verdict
}

var (
	leadsDesc = prometheus.NewDesc("loaderd_daemon_leads", "1 while this daemon plans the run.", nil, nil)
	termDesc  = prometheus.NewDesc("loaderd_daemon_term",
		"Newest term seen by this daemon; each new leader starts a term.", nil, nil)
	healthDesc = prometheus.NewDesc("loaderd_health", "1 for the state of the run: running, waiting or failing.",
		[]string{"health"}, nil)
	reasonDesc = prometheus.NewDesc("loaderd_waits",
		"1 for the reason reported to a waiting reader, if any.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (m daemonMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leadsDesc, termDesc, healthDesc, reasonDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m daemonMetrics) Collect(out chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	show(leadsDesc, boolValue(m.leads()))
	show(termDesc, float64(m.term()))
	v := m.verdict()
	for _, h := range []diagnosis.Health{diagnosis.Running, diagnosis.Waiting, diagnosis.Failing} {
		show(healthDesc, boolValue(v.Health == h), string(h))
	}
	if v.Reason != "" {
		show(reasonDesc, 1, string(v.Reason))
	}
}

// buildInfo collects the build of the program.
func buildInfo(b build.Build) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "loaderd_build_info",
		Help:        "Always 1, with the build of the program.",
		ConstLabels: prometheus.Labels{"version": b.Version, "go": b.Go, "revision": b.Revision}}, func() float64 {
		return 1
	})
}
