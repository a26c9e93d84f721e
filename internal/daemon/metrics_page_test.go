package daemon

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loaderd/internal/goldentest"
)

// described matches the description of a metric by its collector.
var described = regexp.MustCompile(
	`^Desc\{fqName: "(loaderd_\w+)", help: "(.*?)", (?:unit: "\w*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

const metricsHead = `# Metrics

<!-- Written by go test ./internal/daemon -run Docs_Metrics -update from the descriptions of the collectors. -->

Every daemon answers ` + "`GET /metrics`" + ` at ` + "`http.listen`" + ` with Prometheus text, or with OpenMetrics on request. Names are stable. Each of these
has the label ` + "`run`" + `; the Go runtime's and the process's own metrics (` + "`go_*`, `process_*`" + `) are included. The label of a job is ` + "`train_job`" + `, as Prometheus
gives every series a label ` + "`job`" + ` too. A Grafana board and alerts: [Monitoring](../how-to/monitor.md).
Documents that cannot be decoded: [Dead letters](../how-to/dead-letters.md). Reasons: [Errors](errors.md#reasons).

| metric | kind | what it counts |
| --- | --- | --- |
`

// docs/reference/metrics.md equals the descriptions of a daemon's collectors; -update writes it.
func TestDocs_MetricsPageMatchesCollectors(t *testing.T) {
	d := start(t, settings(t))
	defer func() {
		if err := stop(d, 20*time.Second); err != nil {
			t.Error(err)
		}
	}()
	goldentest.Compare(t, "../../../docs/reference/metrics.md", func(w io.Writer) error {
		return writeMetrics(w, d.metrics)
	})
}

func writeMetrics(w io.Writer, r *prometheus.Registry) error {
	families, err := r.Gather()
	if err != nil {
		return err
	}
	kinds := map[string]string{}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	all := make(chan *prometheus.Desc)
	go func() {
		r.Describe(all)
		close(all)
	}()
	lines := map[string]string{}
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			if strings.Contains(d.String(), "loaderd_") {
				return fmt.Errorf("a description in another form: %s", d)
			}
			continue
		}
		name, kind := m[1], kinds[m[1]]
		switch { // a metric without series so far
		case kind == "" && strings.HasSuffix(name, "_total"):
			kind = "counter"
		case kind == "":
			kind = "gauge"
		}
		var labels []string
		for pair := range strings.SplitSeq(m[3], ",") {
			if label, _, _ := strings.Cut(pair, "="); label != "" && label != "run" {
				labels = append(labels, label)
			}
		}
		if m[4] != "" {
			labels = append(labels, strings.Split(m[4], ",")...)
		}
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		lines[name] = fmt.Sprintf("| `%s` | %s | %s |\n", name, kind,
			strings.TrimSuffix(strings.ReplaceAll(m[2], `\"`, `"`), "."))
	}
	text := metricsHead
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		text += lines[name]
	}
	_, err = io.WriteString(w, text)
	return err
}
