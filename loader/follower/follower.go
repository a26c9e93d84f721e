package follower

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/internal/jobspans"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// Follower serves a run's steps to readers. It registers them, waits with them for the plan to grow, and assembles
// rows. It reports its readers' demand to the leader. Followers do not depend on each other.
type Follower struct {
	plan        *planview.View
	Leader      Leader
	config      runconfig.Config
	options     backend.Options
	log         *slog.Logger
	Assembler   *assembly.Assembler
	Prefetch    *prefetcher
	RateSampler diagnosis.RateSampler
	steady      diagnosis.Steady
	Ranks       *ranks.Registry
	Supply      func(source string) (why, do string, ok bool) // of Backends; may be nil

	mu      sync.Mutex
	readers readers
	spans   *jobspans.Spans
	began   time.Time
	demand  state.Demand // last demand sent to the leader
	starved uint64       // the step that readers wait for
	since   time.Time    // start of the first such wait; meaningless once the step is planned
}

// Leader is the interface of the leader to its followers.
type Leader interface {
	// Want replaces the demand of the follower's readers.
	Want(state.Demand)
	// Report returns the leader's progress.
	Report() state.Report
	// Demanded returns the demand of the readers of all daemons, as far as their heartbeats were received.
	Demanded() state.Demand
}

func New(v *planview.View, c runconfig.Config, o backend.Options, s *planview.Streams, log *slog.Logger) *Follower {
	f := &Follower{plan: v, config: c, options: o, log: log, readers: newReaders(), spans: jobspans.New(o),
		began: time.Now(), demand: state.NewDemand(), Ranks: ranks.New(),
		Assembler: assembly.New(s, o.CacheBytes, v.Recent, o.Stall, c.Tokenizer.Pad)}
	f.Prefetch = newPrefetcher(f, o.CacheBytes)
	return f
}

// Join registers a reader.
func (f *Follower) Join(run string, place state.Place, step uint64, client state.Client) (*Reader, error) {
	if place.World < 1 || place.Rank < 0 || place.Rank >= place.World {
		return nil, &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("rank %d of world %d", place.Rank,
			place.World), Do: "ask for 0 <= rank < world"}
	}
	if err := CheckWorld(f.config, place.World); err != nil {
		return nil, err
	}
	place.Job = place.JobName()
	client.Taken = min(client.Taken, step)
	reader := &Reader{follower: f, place: place, client: client, from: step, next: step, reads: step, idle: time.Now(),
		rate: consumptionRate{since: time.Now(), taken: client.Taken}, dropped: make(chan error, 1),
		room: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.plan.Now()
	switch {
	case step < now.Oldest:
		return nil, planview.Released(step, now.Oldest)
	case now.Ended && step > now.Steps:
		return nil, &fault.Error{Reason: fault.StepNotPlanned,
			Message: fmt.Sprintf("run %s ended before step %d: it has %d steps", run, step, now.Steps),
			Do:      "ask for an earlier step; this may be another run than the one you resume",
			Facts:   map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(now.Steps, 10)}}
	}
	if r := f.Leader.Report(); step > max(now.Steps, r.Steps, r.Wanted)+uint64(f.options.Ahead) {
		if r.Unheard {
			return nil, Unheard(step, now.Steps)
		}
		return nil, planview.NotPlanned(step, now.Steps)
	}
	f.readers.add(reader)
	f.Ranks.Open(place, client, step)
	f.passed()
	at := time.Now()
	reader.span = f.spans.Open(place.Job, step-min(client.Read, step), step, at)
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, at)
	f.demand.Needed, f.demand.Furthest = min(f.demand.Needed, step), max(f.demand.Furthest, step)
	f.Leader.Want(f.demand)
	return reader, nil
}

// Unheard returns the error for a step that only a leading daemon could report as not planned.
func Unheard(step, planned uint64) error {
	return &fault.Error{Reason: fault.NotLeading,
		Message: fmt.Sprintf(
			"this daemon knows %d steps of the plan, and has not heard from one that leads whether there is a step %d",
			planned, step), Do: "wait: one will lead within seconds; when none does, look at the daemons' logs and the " +
			"JetStream servers"}
}

// remove removes a reader. The caller holds mu.
func (f *Follower) remove(r *Reader) {
	open := !r.left
	if open {
		f.Ranks.Close(r.place, r.next, r.ended)
	}
	f.readers.remove(r)
	if open && f.readers.byJob[r.place.JobName()] == nil {
		f.spans.Close(r.place.JobName(), f.plan.Now().Keepers, time.Now())
	}
	f.passed()
	f.raise()
	f.Prefetch.turn()
}

// passed updates the first step that readers may still request in the cache. The caller holds mu.
func (f *Follower) passed() { f.Assembler.Pass(f.readers.needed()) }

// raise sends the current demand of the readers to the leader. The caller holds mu.
func (f *Follower) raise() {
	f.demand = f.readers.demand()
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, time.Now())
	f.Leader.Want(f.demand)
}

// retain sends the leader what jobs retain now. It is less if a job has left or has been without readers for long.
func (f *Follower) retain() {
	left := f.plan.Departures()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, job := range left {
		f.spans.Leave(job)
	}
	if jobs := f.spans.AddTo(f.demand.Jobs, time.Now()); !maps.Equal(jobs, f.demand.Jobs) {
		f.demand.Jobs = jobs
		f.Leader.Want(f.demand)
	}
}

// resumes records how many steps a trainer without a stream has consumed. After a restart of the daemon, the trainer
// continues with steps that it was sent before. Such reports count until the job has a reader. They are ignored if a
// daemon has the job from its readers, or if this daemon has run for jobspans.SpanRetention. The caller holds mu.
func (f *Follower) resumes(job string, taken uint64) {
	now := time.Now()
	_, elsewhere := f.Leader.Demanded().Jobs[job]
	if known := f.spans.Of[job] != nil || elsewhere; known && !f.spans.Reported(job) ||
		now.Sub(f.began) >= jobspans.SpanRetention {
		return
	}
	taken = min(taken, f.plan.Planned())
	f.spans.Report(job, taken, f.plan.Now().Keepers, now)
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, now)
	f.Leader.Want(f.demand)
}

// Sent returns how many steps were sent to the readers of some jobs here.
func (f *Follower) Sent(of func(job string) bool) (steps uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job, x := range f.spans.Of {
		if job != state.UnnamedJob && x.Sent > steps && of(job) {
			steps = x.Sent
		}
	}
	return steps
}

// waiting returns since when readers have waited for the next step to be planned, and their number; zeros if none
// waits.
func (f *Follower) waiting() (since time.Time, readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	planned := f.plan.Planned()
	for _, x := range f.readers.all() {
		if x.next >= planned {
			readers++
		}
	}
	if f.starved >= planned {
		since = f.since
	}
	return since, readers
}

// Assemble returns rows [first, first+n) of a step.
func (f *Follower) Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	b, err := f.Assembler.Assemble(ctx, s, first, n)
	if err != nil {
		return nil, f.plan.Lost(ctx, s.Index, err)
	}
	return b, nil
}

// ReaderStats describes the readers, in any order.
func (f *Follower) ReaderStats() []state.ReaderStat {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.readers.all()
	out := make([]state.ReaderStat, 0, len(all))
	for _, x := range all {
		out = append(out, x.stat())
	}
	return out
}
