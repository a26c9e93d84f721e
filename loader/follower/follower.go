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
	plan         *planview.View
	Leader       Leader
	config       runconfig.Config
	options      backend.Options
	log          *slog.Logger
	Assembler    *assembly.Assembler
	Prefetch     *prefetcher
	RateSampler  diagnosis.RateSampler
	shownVerdict diagnosis.VerdictDebouncer
	Ranks        *ranks.Registry
	PullStatus   func(source string) (why, do string, ok bool) // of Backends; may be nil

	mu          sync.Mutex
	readers     readers
	spans       *jobspans.Tracker
	startTime   time.Time
	demand      state.Demand // last demand sent to the leader
	awaitedStep uint64       // the step that readers wait for
	waitStart   time.Time    // start of the first such wait; meaningless once the step is planned
}

// Leader is the interface of the leader to its followers.
type Leader interface {
	// SetDemand replaces the demand of the follower's readers.
	SetDemand(state.Demand)
	// Report returns the leader's progress.
	Report() state.Report
	// TotalDemand returns the demand of the readers of all daemons, as far as their heartbeats were received.
	TotalDemand() state.Demand
}

// New returns a follower that serves the steps of v.
func New(v *planview.View, c runconfig.Config, o backend.Options, s *planview.Streams, log *slog.Logger) *Follower {
	f := &Follower{plan: v, config: c, options: o, log: log, readers: newReaders(), spans: jobspans.New(o),
		startTime: time.Now(), demand: state.NewDemand(), Ranks: ranks.New(),
		Assembler: assembly.New(s, o.CacheBytes, v.MemorySteps, o.StallTimeout, c.Tokenizer.Pad)}
	f.Prefetch = newPrefetcher(f, o.CacheBytes)
	return f
}

// Join registers a reader.
func (f *Follower) Join(run string, place state.RankID, step uint64, client state.Client) (*Reader, error) {
	if place.World < 1 || place.Rank < 0 || place.Rank >= place.World {
		return nil, &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Sprintf("rank %d of world %d", place.Rank,
			place.World), Advice: "ask for 0 <= rank < world"}
	}
	if err := CheckWorldSize(f.plan.Schedule(), step, place.World); err != nil {
		return nil, err
	}
	place.Job = place.JobName()
	client.Delivered = min(client.Delivered, step)
	reader := &Reader{follower: f, place: place, client: client, from: step, next: step, neededStep: step,
		idleSince: time.Now(),
		rate:      consumptionRate{since: time.Now(), taken: client.Delivered}, dropped: make(chan error, 1),
		roomSignal: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.plan.Snapshot()
	switch {
	case step < now.Oldest:
		return nil, planview.StepPurgedError(step, now.Oldest)
	case now.Ended && step > now.Steps:
		return nil, &fault.Error{Reason: fault.StepNotPlanned,
			Message: fmt.Sprintf("run %s ended before step %d: it has %d steps", run, step, now.Steps),
			Advice:  "ask for an earlier step; this may be another run than the one you resume",
			Facts:   map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(now.Steps, 10)}}
	}
	if r := f.Leader.Report(); step > max(now.Steps, r.Steps, r.FirstUnrequested)+uint64(f.options.Ahead) {
		if r.LeaderUnknown {
			return nil, LeaderUnknownError(step, now.Steps)
		}
		return nil, planview.StepNotPlannedError(step, now.Steps)
	}
	f.readers.add(reader)
	f.Ranks.Open(place, client, step)
	f.updateNeeded()
	at := time.Now()
	reader.span = f.spans.Open(place.Job, step-min(client.PriorSteps, step), step, at)
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, at)
	f.demand.Needed, f.demand.Furthest = min(f.demand.Needed, step), max(f.demand.Furthest, step)
	f.Leader.SetDemand(f.demand)
	return reader, nil
}

// LeaderUnknownError returns the error for a step that only a leading daemon could report as not planned.
func LeaderUnknownError(step, planned uint64) error {
	return &fault.Error{Reason: fault.NotLeading,
		Message: fmt.Sprintf(
			"this daemon knows %d steps of the plan, and no leader has reported whether step %d exists",
			planned, step), Advice: "wait: a leader is elected within seconds; if none is, look at the daemons' logs and the " +
			"JetStream servers"}
}

// removeReader removes a reader. The caller holds mu.
func (f *Follower) removeReader(r *Reader) {
	open := !r.closed
	if open {
		f.Ranks.Close(r.place, r.next, r.ended)
	}
	f.readers.remove(r)
	if open && f.readers.byJob[r.place.JobName()] == nil {
		f.spans.Close(r.place.JobName(), f.plan.Snapshot().Commits, time.Now())
	}
	f.updateNeeded()
	f.sendDemand()
	f.Prefetch.requestWindow()
}

// updateNeeded updates the first step that readers may still request in the cache. The caller holds mu.
func (f *Follower) updateNeeded() { f.Assembler.SetNeeded(f.readers.firstNeeded()) }

// sendDemand sends the current demand of the readers to the leader. The caller holds mu.
func (f *Follower) sendDemand() {
	f.demand = f.readers.demand()
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, time.Now())
	f.Leader.SetDemand(f.demand)
}

// sendRetained sends the leader what jobs retain now. It is less if a job has left or has been without readers for
// long.
func (f *Follower) sendRetained() {
	left := f.plan.Departures()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, job := range left {
		f.spans.Leave(job)
	}
	if jobs := f.spans.AddTo(f.demand.Jobs, time.Now()); !maps.Equal(jobs, f.demand.Jobs) {
		f.demand.Jobs = jobs
		f.Leader.SetDemand(f.demand)
	}
}

// recordResumed records how many steps a trainer without a stream has consumed. After a restart of the daemon, the
// trainer continues with steps that it was sent before. Such reports count until the job has a reader. They are ignored
// if a daemon has the job from its readers, or if this daemon has run for jobspans.DefaultRetention. The caller holds
// mu.
func (f *Follower) recordResumed(job string, taken uint64) {
	now := time.Now()
	_, elsewhere := f.Leader.TotalDemand().Jobs[job]
	if known := f.spans.ByJob[job] != nil || elsewhere; known && !f.spans.IsReportOnly(job) ||
		now.Sub(f.startTime) >= jobspans.DefaultRetention {
		return
	}
	taken = min(taken, f.plan.PlannedSteps())
	f.spans.Report(job, taken, f.plan.Snapshot().Commits, now)
	f.demand.Jobs = f.spans.AddTo(f.demand.Jobs, now)
	f.Leader.SetDemand(f.demand)
}

// SentSteps returns how many steps were sent to the readers of some jobs here.
func (f *Follower) SentSteps(of func(job string) bool) (steps uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job, x := range f.spans.ByJob {
		if job != state.UnnamedJob && x.Sent > steps && of(job) {
			steps = x.Sent
		}
	}
	return steps
}

// waitingReaders returns since when readers have waited for the next step to be planned, and their number; zeros if
// none waits.
func (f *Follower) waitingReaders() (since time.Time, readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	planned := f.plan.PlannedSteps()
	for _, x := range f.readers.all() {
		if x.next >= planned {
			readers++
		}
	}
	if f.awaitedStep >= planned {
		since = f.waitStart
	}
	return since, readers
}

// Assemble returns rows [first, first+n) of a step.
func (f *Follower) Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	b, err := f.Assembler.Assemble(ctx, s, first, n)
	if err != nil {
		return nil, f.plan.ConvertDocumentLost(ctx, s.Index, err)
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
