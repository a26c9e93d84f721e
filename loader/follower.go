package loader

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"loaderd/loader/plan"
)

// follower serves a run's steps to readers: it joins them, waits with them for the plan to grow, and assembles rows. It holds nothing that
// another follower would have to know; what its readers want it tells the leader.
type follower struct {
	plan      *planView
	leader    leading
	config    plan.Config
	options   Options
	log       *slog.Logger
	assembler assembler

	mu      sync.Mutex
	readers map[*Reader]struct{}
	demand  demand    // that the leader was told last
	starved uint64    // the step that readers wait for ...
	since   time.Time // ... since then; meaningless once it is planned
}

// leading is the leader as its followers see it.
type leading interface {
	// want takes what the follower's readers want from now on.
	want(demand)
	// report says how far the leader is.
	report() report
}

func newFollower(v *planView, c plan.Config, o Options, e Edges, log *slog.Logger) *follower {
	return &follower{plan: v, config: c, options: o, log: log, readers: map[*Reader]struct{}{}, demand: demand{Needed: everyStep},
		assembler: assembler{docs: e.Documents, cache: newContentCache(o.CacheBytes), pad: c.Tokenizer.Pad, stall: o.Stall}}
}

// begin tells the leader what the readers that were here before wanted, at least: the plan stands as far ahead of them as it may.
func (f *follower) begin() {
	steps := f.plan.planned()
	f.demand.Wanted = steps - min(steps, uint64(f.options.Ahead))
	if r := f.plan.header.Repair; r != nil { // they may be as far as the damaged plan once was
		f.demand.Wanted = max(f.demand.Wanted, r.Steps)
	}
	f.leader.want(f.demand)
}

// join registers a reader.
func (f *follower) join(run string, place Place, step uint64) (*Reader, error) {
	if place.World < 1 || place.Rank < 0 || place.Rank >= place.World {
		return nil, &Error{Reason: BadTicket, Message: fmt.Sprintf("rank %d of world %d", place.Rank, place.World), Do: "ask for 0 <= rank < world"}
	}
	if err := CheckWorld(f.config, place.World); err != nil {
		return nil, err
	}
	reader := &Reader{follower: f, place: place, next: step, reads: step}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.plan.now()
	switch {
	case step < now.oldest:
		return nil, released(step, now.oldest)
	case now.ended && step > now.steps:
		return nil, &Error{Reason: StepNotPlanned, Message: fmt.Sprintf("run %s ended before step %d: it has %d steps", run, step, now.steps),
			Do:    "ask for an earlier step; this may be another run than the one you resume",
			Facts: map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(now.steps, 10)}}
	case step > max(now.steps, f.demand.Wanted)+uint64(f.options.Ahead):
		return nil, notPlanned(step, now.steps)
	}
	f.readers[reader] = struct{}{}
	f.demand.Needed, f.demand.Furthest = min(f.demand.Needed, step), max(f.demand.Furthest, step)
	f.leader.want(f.demand)
	return reader, nil
}

// raise tells the leader what readers want now. Ranks of one world advance together: the slowest of them counts, so that a rank that
// stops makes the daemon wait instead of grow. Different worlds (a trainer, and someone who looks at old steps) do not hold each
// other back. The caller holds mu.
func (f *follower) raise() {
	d := demand{Wanted: f.demand.Wanted, Needed: everyStep}
	for x := range f.readers {
		d.Needed, d.Furthest = min(d.Needed, x.reads), max(d.Furthest, x.next)
	}
	for _, x := range f.slowest() {
		d.Wanted = max(d.Wanted, x.next+1)
	}
	f.demand = d
	f.leader.want(d)
}

// slowest returns the reader that is furthest behind in every world. The caller holds mu.
func (f *follower) slowest() map[int]*Reader {
	out := map[int]*Reader{}
	for x := range f.readers {
		if y := out[x.place.World]; y == nil || x.next < y.next {
			out[x.place.World] = x
		}
	}
	return out
}

// brake returns the reader that keeps a step from being planned, nil when none does: all of its world wait for it. The caller holds mu.
func (f *follower) brake(step uint64) *Reader {
	if step < f.demand.Wanted+uint64(f.options.Ahead) {
		return nil
	}
	var out *Reader
	for _, x := range f.slowest() {
		if out == nil || x.next > out.next {
			out = x
		}
	}
	return out
}

// waiting returns since when readers wait for the step that is planned next, and how many of them; zero while nobody does.
func (f *follower) waiting() (since time.Time, readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	planned := f.plan.planned()
	for x := range f.readers {
		if x.next >= planned {
			readers++
		}
	}
	if f.starved >= planned {
		since = f.since
	}
	return since, readers
}

// assemble returns rows [first, first+n) of a step.
func (f *follower) assemble(ctx context.Context, s *plan.Step, first, n int) (*Batch, error) {
	b, err := f.assembler.assemble(ctx, s, first, n)
	if err != nil {
		return nil, f.plan.lost(s.Index, err)
	}
	return b, nil
}

// readerStats describes the readers, in any order.
func (f *follower) readerStats() []ReaderStat {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]ReaderStat, 0, len(f.readers))
	for x := range f.readers {
		out = append(out, ReaderStat{x.place.Rank, x.place.World, x.next})
	}
	return out
}
