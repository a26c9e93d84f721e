package deadletter

import (
	"context"
	"slices"
	"sync"
	"time"

	"loaderd/stream"
)

// Tallies holds the tallies of all sources of a run. Sources may be added while it runs.
type Tallies struct {
	interval time.Duration
	added    chan struct{}

	mu  sync.Mutex
	all []*Tally
}

const (
	// pollInterval is the interval of requests for each stream's state, if few streams exist.
	pollInterval = 2 * time.Second
	// pollPause is the pause between two requests, so each of many streams is requested less often.
	pollPause = 50 * time.Millisecond
)

// NewTallies returns the tallies of no source yet.
func NewTallies() *Tallies { return &Tallies{interval: pollInterval, added: make(chan struct{}, 1)} }

// Add adds the letters of a store's document stream, which belongs to a source.
func (t *Tallies) Add(s *stream.Store, source string) {
	t.mu.Lock()
	t.all = append(t.all, NewTally(s, source))
	t.mu.Unlock()
	select {
	case t.added <- struct{}{}:
	default:
	}
}

func (t *Tallies) tallies() []*Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// Follow keeps the tallies up to date until ctx ends. It retries failed reads.
func (t *Tallies) Follow(ctx context.Context) {
	failing := map[*Tally]bool{}
	for {
		all := t.tallies()
		for _, x := range all {
			err := x.Refresh(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !failing[x] {
				x.store.Log().Warn("cannot count dead letters, trying again", "stream", x.store.Config().DeadLetterName(),
					"error", err)
			}
			failing[x] = err != nil
			if len(all) > 1 && !sleep(ctx, pollPause, nil) {
				return
			}
		}
		if !sleep(ctx, max(t.interval-time.Duration(len(all))*pollPause, pollPause), t.added) {
			return
		}
	}
}

// sleep waits for d, or until sooner has a value. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration, sooner <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sooner:
	case <-ctx.Done():
		return false
	}
	return true
}

// Summary returns what the streams of all sources hold.
func (t *Tallies) Summary() Summary {
	var all []Summary
	for _, x := range t.tallies() {
		all = append(all, x.Summary())
	}
	return MergeSummaries(all...)
}

// Each calls f with the summary of each source's stream.
func (t *Tallies) Each(f func(source string, s Summary)) {
	for _, x := range t.tallies() {
		f(x.Source(), x.Summary())
	}
}
