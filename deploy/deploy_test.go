// Package deploy_test checks the files for operators: the Grafana board, the Prometheus rules and the page that
// explains them. internal/daemon runs every query of both against a daemon.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"loaderd/internal/promtest"
)

type target struct {
	RefID      string            `json:"refId"`
	Datasource map[string]string `json:"datasource"`
	Expr       string            `json:"expr"`
}

type panel struct {
	ID      int      `json:"id"`
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Place   place    `json:"gridPos"`
	Targets []target `json:"targets"`
}

type place struct{ X, Y, W, H int }

func (p place) overlaps(q place) bool {
	return p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H
}

func board(t *testing.T) (b struct {
	UID        string `json:"uid"`
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type string }
	}
}) {
	t.Helper()
	text := read(t, "grafana/loaderd.json")
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every panel has a position and queries of the selected data source. The board can be filtered by run, job and
// source.
func TestBoard_PanelsHavePositionsAndQueries(t *testing.T) {
	b := board(t)
	var variables []string
	for _, v := range b.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := []string{"datasource", "run", "job", "source"}; !slices.Equal(variables, want) {
		t.Errorf("variables are %v, want %v", variables, want)
	}
	for _, uid := range regexp.MustCompile(`"uid": "([^"]*)"`).FindAllStringSubmatch(
		string(read(t, "grafana/loaderd.json")), -1) {
		if uid[1] != "${datasource}" && uid[1] != b.UID {
			t.Errorf("the board names the data source %s", uid[1])
		}
	}
	seen := map[int]string{}
	for i, p := range b.Panels {
		if before, twice := seen[p.ID]; twice {
			t.Errorf("panels %q and %q have the id %d", before, p.Title, p.ID)
		}
		seen[p.ID] = p.Title
		if p.Title == "" || p.Place.W < 1 || p.Place.X+p.Place.W > 24 {
			t.Errorf("panel %d %q lies at %+v", p.ID, p.Title, p.Place)
		}
		for _, q := range b.Panels[:i] {
			if p.Place.overlaps(q.Place) {
				t.Errorf("panels %q and %q overlap", p.Title, q.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, q := range p.Targets {
			if q.Expr == "" || q.Datasource["uid"] != "${datasource}" {
				t.Errorf("panel %q, query %s: %q by %v", p.Title, q.RefID, q.Expr, q.Datasource)
			}
			if strings.Contains(q.Expr, "loaderd_") && !strings.Contains(q.Expr, `run=~"$run"`) {
				t.Errorf("panel %q, query %s does not go by the run: %s", p.Title, q.RefID, q.Expr)
			}
		}
	}
}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(read(t, "prometheus/loaderd.rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var anchor = regexp.MustCompile(`: docs/how-to/monitor\.md#([a-z]+)$`)

// Every alert states the problem and the action, has an explanation on the page, and has a test.
func TestAlerts_HaveActionPageAndTest(t *testing.T) {
	page, tests := string(read(t, "../docs/how-to/monitor.md")), string(read(t, "prometheus/loaderd.rules.test.yaml"))
	all := rules(t)
	if len(all) < 20 {
		t.Fatalf("%d rules", len(all))
	}
	for _, r := range all {
		link := anchor.FindStringSubmatch(r.Annotations["do"])
		if link == nil || link[1] != strings.ToLower(r.Alert) || !strings.Contains(page, "\n### "+r.Alert+"\n") {
			t.Errorf("%s: do is %q, want it to end in a link to its heading in docs/how-to/monitor.md", r.Alert,
				r.Annotations["do"])
		}
		if r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s: summary %q, severity %q", r.Alert, r.Annotations["summary"], r.Labels["severity"])
		}
		if !strings.Contains(tests, `ALERTS{alertname="`+r.Alert+`",alertstate="firing",`) {
			t.Errorf("%s: no test in which it fires", r.Alert)
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^### (Loaderd\w+)$`).FindAllStringSubmatch(page, -1) {
		if !slices.ContainsFunc(all, func(r rule) bool { return r.Alert == name[1] }) {
			t.Errorf("docs/how-to/monitor.md explains %s, which is no alert", name[1])
		}
	}
}

// Every metric in a query of the board or of a rule is on the page of metrics.
func TestQueries_MetricsAreDocumented(t *testing.T) {
	page := string(read(t, "../docs/reference/metrics.md"))
	queries := map[string]string{}
	for _, p := range board(t).Panels {
		for _, q := range p.Targets {
			queries["panel "+p.Title+" "+q.RefID] = q.Expr
		}
	}
	for _, r := range rules(t) {
		queries[r.Alert] = r.Expr
	}
	name := regexp.MustCompile(`\bloaderd_\w+`)
	for what, query := range queries {
		for _, n := range name.FindAllString(query, -1) {
			if n = strings.TrimSuffix(n, "_bucket"); !strings.Contains(page, "`"+n+"`") && !strings.Contains(page, "`"+n+"{") {
				t.Errorf("%s asks for %s, which docs/reference/metrics.md does not list", what, n)
			}
		}
	}
}

// promtool accepts the rules, and they fire and stay inactive as their tests state.
func TestRules_PassPromtool(t *testing.T) {
	folder := promtest.Folder(t)
	for _, args := range [][]string{
		{"check", "rules", "prometheus/loaderd.rules.yaml"},
		{"check", "config", "prometheus/prometheus.yaml"},
		{"check", "config", "prometheus/cluster.yaml"},
		{"test", "rules", "prometheus/loaderd.rules.test.yaml"},
	} {
		if out, err := exec.Command(filepath.Join(folder, "promtool"), args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
