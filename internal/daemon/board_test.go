package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/promtest"
	"loaderd/loader/mixture"
	"loaderd/stream"
)

// boardQueries returns the queries of the Grafana dashboard by panel, with its variables set to all values.
func boardQueries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/loaderd.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
		Annotations struct {
			List []struct{ Name, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	set := strings.NewReplacer("$run", ".+", "$job", ".+", "$source", ".+", "$__rate_interval", "20s")
	queries := map[string]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries[p.Title+" "+q.RefID] = set.Replace(q.Expr)
		}
	}
	for _, a := range board.Annotations.List {
		queries[a.Name] = set.Replace(a.Expr)
	}
	return queries
}

// emptyOnBoard are queries of the dashboard that return nothing for a healthy run.
var emptyOnBoard = []string{
	"Cause of the stall A", "Expiry A", "New leader", "Missing ranks A",
}

// firing are the alerts that the test's run triggers. All other alerts must stay silent.
var firing = []string{"LoaderdUndecodable"}

// A Prometheus server that scrapes a running daemon gets a result for every query of the dashboard, and accepts every
// rule.
func TestDashboard_QueriesMatchDaemonMetrics(t *testing.T) {
	c := settings(t)
	c.Plan.Mix = config.Default().Plan.Mix
	c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 3, Epochs: 1}, "math": {Weight: 1, Epochs: 1}}
	c.Serve.CheckpointSteps = 4
	d := start(t, c)
	defer func() {
		if err := stop(d, 30*time.Second); err != nil {
			t.Error(err)
		}
	}()
	rules, err := filepath.Abs("../../deploy/prometheus/loaderd.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	prometheus := promtest.Start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: loaderd, static_configs: [{targets: [%q]}]}]
`, rules, strings.TrimPrefix(d.http.url(), "http://")))
	defer train(t, d)()

	missing := boardQueries(t)
	for _, name := range emptyOnBoard {
		if _, there := missing[name]; !there {
			t.Errorf("the board has no query %q", name)
		}
		delete(missing, name)
	}
	names := map[string]bool{}
	for _, expr := range ruleQueries(t, prometheus) {
		for _, name := range regexp.MustCompile(`\bloaderd_\w+`).FindAllString(expr, -1) {
			names[name] = true
		}
	}
	delete(names, "loaderd_rank_missing_seconds") // no rank is missing
	delete(names, "loaderd_waits")                // no wait lasts long
	for name := range names {
		missing["metric "+name] = name
	}
	deadline, again := time.After(2*time.Minute), time.NewTicker(500*time.Millisecond)
	defer again.Stop()
	for len(missing) > 0 {
		select {
		case <-again.C:
		case <-deadline:
			for _, name := range slices.Sorted(maps.Keys(missing)) {
				t.Errorf("%s finds nothing: %s", name, missing[name])
			}
			return
		}
		for name, query := range missing {
			if len(prometheus.Query(t, query)) > 0 {
				delete(missing, name)
			}
		}
	}
	for name, expr := range ruleQueries(t, prometheus) {
		if found := prometheus.Query(t, expr); len(found) > 0 && !slices.Contains(firing, name) {
			t.Errorf("%s has cause: %s finds %v", name, expr, found)
		}
	}
}

// ruleQueries returns the expressions of the rules that Prometheus has loaded. Prometheus must be able to evaluate
// all of them.
func ruleQueries(t *testing.T, p *promtest.Server) map[string]string {
	t.Helper()
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError string }
		}
	}
	p.Get(t, "/api/v1/rules", &answer)
	all := map[string]string{}
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			all[r.Name] = r.Query
			if r.LastError != "" {
				t.Errorf("rule %s: %s", r.Name, r.LastError)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("prometheus has no rules")
	}
	return all
}

// train publishes documents of two sources, some of which cannot be decoded, and has two ranks read and commit, until
// stop is called. One more client sends an invalid ticket.
func train(t *testing.T, d *Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{Report: true})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	// One error, so that the error metrics have a value.
	if err := client.Read(ctx, api.Ticket{Rank: 5, World: 2}, nil); flightclient.Reason(err) != "INVALID_TICKET" {
		t.Errorf("rank 5 of 2 got %v", err)
	}
	tokens := make([]byte, 4*1024)
	publish := func() {
		for range 8 {
			natstest.Publish(t, d.Store(), stream.Message{Subject: "docs.web", Data: tokens, ContentType: stream.TypeTokens,
				Tokenizer: "f"},
				stream.Message{Subject: "docs.math", Data: tokens, ContentType: stream.TypeTokens, Tokenizer: "f"})
		}
		natstest.Publish(t, d.Store(), stream.Message{Subject: "docs.web",
			Data: []byte("text, which this run does not take")})
	}
	publish()
	running.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				publish()
			}
		}
	})
	for rank := range 2 {
		running.Go(func() {
			err := client.Read(ctx, api.Ticket{Rank: rank, World: 2}, func(b flightclient.Batch) error {
				if rank > 0 || b.Meta.Step%4 != 0 {
					return nil
				}
				return client.Do(ctx, "commit", map[string]any{"step": b.Meta.Step}, nil)
			})
			if ctx.Err() == nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
