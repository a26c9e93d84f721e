package torture_test

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/testscale"
)

// release builds loaderd with a version.
func release(t *testing.T, version string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "loaderd")
	if out, err := exec.Command("go", "build", "-ldflags", "-X loaderd/internal/build.release="+version, "-o", binary,
		"./cmd/loaderd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	said, err := exec.Command(binary, "version").Output()
	if err != nil || !strings.Contains(string(said), version) {
		t.Fatalf("loaderd version reports %s, %v, want %s", said, err, version)
	}
	return binary
}

// Three daemons, each with an embedded server of the cluster, are upgraded one after the other while two jobs train
// and documents are published. The steps are those of an undisturbed run.
func TestRollingUpgrade_KeepsSteps(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes a minute: LOADERD_TEST=all")
	}
	before, after := release(t, "v1.0.0"), release(t, "v1.0.1")
	c := daemontest.Settings(t, "")
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Steps.Rows, c.Serve.CheckpointSteps, c.Serve.Ahead, c.Serve.StallTimeout = 12, 20, 8, 20*time.Second
	f := newFleet(t, c)
	for _, v := range f.members {
		v.binary = before
	}
	f.startAll()
	published := make(chan error, 1)
	go func() { published <- publishTokens(f.victim, f.nats(), "torture", 5000, 1) }()
	jobs := []string{"trainer", "evaluator"}
	got, at := make([][]flightclient.Batch, len(jobs)), make([]arrivals, len(jobs))
	var training sync.WaitGroup
	for i, job := range jobs {
		training.Go(func() {
			f.train(api.Ticket{Job: job}, i, func(b flightclient.Batch) {
				at[i].note()
				b.Meta = api.Metadata{}
				got[i] = append(got[i], b)
			})
		})
	}
	pause(f.ctx, 2*time.Second)
	began := time.Now()
	for _, v := range f.members {
		f.caughtUp()
		v.terminate()
		v.binary = after
		v.start()
	}
	f.caughtUp()
	upgraded := time.Now()
	if err := <-published; err != nil {
		t.Fatalf("publish: %v\n%s", err, f.logs())
	}
	f.do("seal", map[string]any{})
	training.Wait()
	var longest time.Duration
	for i := range at {
		wait, over := at[i].longest(began, upgraded)
		if !over {
			t.Errorf("job %s had all its steps before the upgrade was over: nothing is shown", jobs[i])
		}
		longest = max(longest, wait)
	}
	for _, v := range f.members {
		v.terminate()
		v.c.Run = "calm"
	}
	f.startAll()
	f.do("seal", map[string]any{})
	want, err := readOn(f.ctx, f.uris(), api.Ticket{}, 1)
	if err != nil || len(want) == 0 {
		t.Fatalf("the undisturbed run: %d steps, %v\n%s", len(want), err, f.logs())
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("job %s got %d steps, and not those of an undisturbed run, which has %d", jobs[i], len(got[i]), len(want))
		}
	}
	t.Logf("%d steps, byte-identical; the upgrade took %v, a rank waited %v at most", len(want),
		upgraded.Sub(began).Round(100*time.Millisecond),
		max(longest-50*time.Millisecond, 0).Round(10*time.Millisecond))
}
