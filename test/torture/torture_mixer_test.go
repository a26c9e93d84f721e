package torture_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/internal/runadmin"
	"loaderd/loader/fault"
	"loaderd/stream"
)

// mixer changes the mixture of a run repeatedly, through all failures of its daemons: weights, a source that is added
// and one that is removed.
type mixer struct {
	uris    []string
	r       *rand.Rand
	sources []string
	end     chan struct{}
	over    sync.WaitGroup
	done    int // successful changes
	err     error
}

func newMixer(uris []string, seed uint64, sources ...string) *mixer {
	return &mixer{uris: uris, r: rand.New(rand.NewPCG(seed, 7)), sources: sources, end: make(chan struct{})}
}

// late is a source that is added, has no documents, and is removed.
const late = "late"

// run makes changes until stop is called.
func (m *mixer) run(ctx context.Context) {
	m.over.Add(1)
	defer m.over.Done()
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-m.end:
			return
		case <-time.After(time.Duration(m.r.IntN(400)) * time.Millisecond):
		}
		change := map[string]any{}
		names := m.sources
		switch {
		case n == 3:
			change["add"] = map[string]any{late: map[string]any{"weight": 1}}
			fallthrough
		case n > 3 && n < 6:
			names = append(slices.Clone(names), late)
		case n == 6:
			change["remove"] = []string{late}
		}
		weights := map[string]float64{}
		for _, name := range names {
			weights[name] = float64(1 + m.r.IntN(9))
		}
		change["weights"] = weights
		if err := m.ask(ctx, change); err != nil {
			m.err = errors.Join(m.err, err)
			return
		}
		m.done++
	}
}

// ask requests one change from the daemons until it succeeds. A response that the change was made before also counts,
// because the first response may be lost.
func (m *mixer) ask(ctx context.Context, change map[string]any) error {
	for try := 0; ctx.Err() == nil; try++ {
		select {
		case <-m.end:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		client, err := flightclient.Open(m.uris[try%len(m.uris)], flightclient.Options{})
		if err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = client.Do(attempt, "mix", maps.Clone(change), nil)
		cancel()
		_ = client.Close()
		if err == nil || flightclient.Reason(err) == string(fault.InvalidTicket) {
			return nil
		}
	}
	return nil
}

// stop ends the changes.
func (m *mixer) stop(t *testing.T) {
	if m == nil {
		return
	}
	t.Helper()
	close(m.end)
	m.over.Wait()
	if m.err != nil || m.done == 0 {
		t.Fatalf("%d changes of the mixture, %v", m.done, m.err)
	}
	t.Logf("%d changes of the mixture", m.done)
}

// audit audits the run from its documents and its log.
func (m *mixer) audit(t *testing.T, store *stream.Store, c config.Config) {
	t.Helper()
	tokens, tokenizer, err := daemon.LoadTokenizer(c.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := runadmin.Audit(t.Context(), store, c.Run, tokens, tokenizer, nil)
	if err != nil || !seen.Ended || len(seen.Controls) < m.done/2 {
		t.Fatalf("the audit returned %+v, %v", seen, err)
	}
	t.Logf("the audit has planned %d steps with %d controls again", seen.Steps, len(seen.Controls))
}
