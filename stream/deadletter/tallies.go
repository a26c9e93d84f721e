package deadletter

import (
	"context"
	"slices"
	"sync"
	"time"

	"loaderd/stream"
)

// Tallies are those of all sources of a run, which may become more while it goes on.
type Tallies struct {
	every time.Duration
	added chan struct{}

	mu  sync.Mutex
	all []*Tally
}

const (
	// lookEvery is how often each stream is asked what it holds, where there are few.
	lookEvery = 2 * time.Second
	// lookPause lies between two questions: many streams are asked less often each.
	lookPause = 50 * time.Millisecond
)

// NewTallies returns those of no source yet.
func NewTallies() *Tallies { return &Tallies{every: lookEvery, added: make(chan struct{}, 1)} }

// Add takes in the letters behind a store's document stream, which belongs to a source.
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

// Follow keeps them up to date until ctx ends. What cannot be read now is read later.
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
				x.store.Log().Warn("dead letters cannot be counted now, trying again", "stream", x.store.Config().DeadLetterName(),
					"error", err)
			}
			failing[x] = err != nil
			if len(all) > 1 && !wait(ctx, lookPause, nil) {
				return
			}
		}
		if !wait(ctx, max(t.every-time.Duration(len(all))*lookPause, lookPause), t.added) {
			return
		}
	}
}

// wait waits so long, or until sooner has something; false when ctx has ended.
func wait(ctx context.Context, d time.Duration, sooner <-chan struct{}) bool {
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

// Summary is what the streams of all sources hold.
func (t *Tallies) Summary() Summary {
	var all []Summary
	for _, x := range t.tallies() {
		all = append(all, x.Summary())
	}
	return Merge(all...)
}

// Each calls f with what the stream of each source holds.
func (t *Tallies) Each(f func(source string, s Summary)) {
	for _, x := range t.tallies() {
		f(x.Source(), x.Summary())
	}
}
