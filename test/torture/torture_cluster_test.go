package torture_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/testscale"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
)

// verdicts are the errors that no daemon may report for existing documents and plans.
var verdicts = []string{string(fault.DocumentLost), string(fault.PlanTruncated), string(fault.PlanMismatch),
	"was replaced", "was deleted"}

// TestTorture_Cluster injects faults into three daemons, each with an embedded server. Meanwhile the command and
// the Python package, killed at times, publish documents, and the ranks of two jobs read. Their steps are those of an
// undisturbed run over the same documents, with each document once. No daemon reports any loss.
func TestTorture_Cluster(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes minutes: LOADERD_TEST=all")
	}
	n, seed := tortures(t, 10)
	torturedCluster(t, daemontest.Settings(t, ""), n, seed, nil)
}

// TestTorture_ClusterWithMixtureChanges does the same to a run with a source for each producer, whose mixture changes
// continuously. The ranks' steps equal those of an undisturbed second reading of the run, and those of an audit.
func TestTorture_ClusterWithMixtureChanges(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes minutes: LOADERD_TEST=all")
	}
	n, seed := tortures(t, 6)
	c := daemontest.Settings(t, "")
	c.Plan.Mix.OnDry, c.Plan.Mix.DryAfter = mixture.DryShare, time.Second
	c.Plan.Sources = map[string]mixture.Source{"command": {Weight: 2, Epochs: 1}, "python": {Weight: 1, Epochs: 1}}
	torturedCluster(t, c, n, seed, newMixer(nil, seed, "command", "python"))
}

// torturedCluster injects n faults. m, if not nil, changes the mixture.
func torturedCluster(t *testing.T, c config.Config, n int, seed uint64, m *mixer) {
	r := rand.New(rand.NewPCG(seed, 0))
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Steps.Rows, c.Serve.CheckpointSteps, c.Serve.Ahead = 12, 5, 8
	c.Serve.StallTimeout = 5 * time.Second
	f := newFleet(t, c)
	f.startAll()

	inputs, documents := make([]string, 2), make([][][]int32, 2)
	for i := range documents {
		inputs[i], documents[i] = writeInput(t, i, n*300, seed)
	}
	producers := []*producer{byCommand(t, f.nats(), inputs[0]), byPython(t, f.nats(), inputs[1])}
	published := make(chan error, len(producers))
	for _, p := range producers {
		go func() { published <- p.run(f.ctx) }()
	}
	jobs := []string{"trainer", "evaluator"}
	const ranks = 2
	columns := daemontest.Columns
	if m != nil {
		columns = append(slices.Clone(daemontest.Columns), "sources")
	}
	read := func(job string, rank int) ([]flightclient.Batch, error) {
		return readOn(f.ctx, f.uris(), api.Ticket{Job: job, Rank: rank, World: ranks, Columns: columns}, seed)
	}
	got := make([][]flightclient.Batch, len(jobs)*ranks)
	errs := make([]error, len(got))
	var reading sync.WaitGroup
	for i := range got {
		reading.Go(func() { got[i], errs[i] = read(jobs[i/ranks], i%ranks) })
	}
	if m != nil {
		m.uris = f.uris()
		go m.run(f.ctx)
	}
	var order []int
	for i := range n {
		if len(order) == 0 { // all kinds are equally frequent
			order = r.Perm(len(faults))
		}
		fault := faults[order[0]]
		order = order[1:]
		f.wait(r, 0, 4000)
		if f.ctx.Err() != nil {
			break
		}
		began := time.Now()
		fault.do(f, r, r.IntN(len(f.members)))
		t.Logf("fault %d: %s, %v", i, fault.name, time.Since(began).Round(time.Millisecond))
		if x := r.IntN(2 * len(producers)); x < len(producers) {
			producers[x].kill()
		}
	}
	for range producers {
		if err := <-published; err != nil {
			t.Fatalf("publish: %v\n%s", err, f.logs())
		}
	}
	m.stop(t)
	f.do("seal", map[string]any{})
	reading.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d of job %s: %v\n%s", i%ranks, jobs[i/ranks], err, f.logs())
		}
	}
	deposed := 0
	for _, v := range f.members {
		v.terminate()
		if m == nil {
			v.c.Run = "calm"
		}
		said := v.logged()
		deposed += strings.Count(said, "no longer leads the run")
		for _, verdict := range verdicts {
			if at := strings.Index(said, verdict); at >= 0 {
				t.Errorf("a daemon reports %s: %s", verdict, said[max(0, at-1000):min(len(said), at+1000)])
			}
		}
	}
	f.startAll()
	f.do("seal", map[string]any{})
	want := make([][]flightclient.Batch, ranks)
	for rank := range want {
		reading.Go(func() { want[rank], errs[rank] = read("trainer", rank) })
	}
	reading.Wait()
	for i := range got {
		rank := i % ranks
		if errs[rank] != nil || len(want[rank]) == 0 {
			t.Fatalf("rank %d of the undisturbed run: %d steps, %v\n%s", rank, len(want[rank]), errs[rank], f.logs())
		}
		if len(got[i]) != len(want[rank]) {
			t.Fatalf("rank %d of job %s has %d steps, undisturbed %d", rank, jobs[i/ranks], len(got[i]), len(want[rank]))
		}
		for step := range want[rank] {
			if !reflect.DeepEqual(got[i][step], want[rank][step]) {
				t.Fatalf("step %d of rank %d of job %s differs from the undisturbed run's", step, rank, jobs[i/ranks])
			}
		}
	}
	if m != nil {
		store, err := f.open(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		m.audit(t, store, c)
	}
	onceEach(t, want, documents...)
	t.Logf("%d steps for each of %d ranks of %d jobs, byte-identical after %d faults; %d documents, each once; %d "+
		"times a daemon that led was deposed",
		len(want[0]), ranks, len(jobs), n, len(documents[0])+len(documents[1]), deposed)
}
