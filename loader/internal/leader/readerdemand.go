package leader

import (
	"maps"
	"sync"

	"loaderd/loader/internal/waiting"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// readerDemand holds the demand of the readers of all daemons, and which documents their jobs retain.
type readerDemand struct {
	view       *planview.View
	ahead      uint64        // number of steps that are planned before a reader requests them
	demandGrew chan struct{} // signals that readers want more steps

	// mu guards the fields below. No other mutex is locked while it is held.
	mu               sync.Mutex
	demand           state.Demand // of the followers
	firstUnrequested uint64       // first step that no reader has ever requested
	firstNeeded      uint64       // documents of the steps before it may be purged
}

func newReaderDemand(v *planview.View, ahead uint64) *readerDemand {
	return &readerDemand{view: v, ahead: ahead, demandGrew: make(chan struct{}, 1), demand: state.NewDemand()}
}

// setDemand replaces the demand of the followers.
func (d *readerDemand) setDemand(x state.Demand) {
	d.mu.Lock()
	more := x.FirstUnrequested() > d.firstUnrequested
	d.demand, d.firstUnrequested = x, max(d.firstUnrequested, x.FirstUnrequested())
	d.mu.Unlock()
	if more {
		waiting.Signal(d.demandGrew)
	}
}

// assumeRequested records that readers of earlier processes may have requested all steps before step.
func (d *readerDemand) assumeRequested(step uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.firstUnrequested = max(d.firstUnrequested, step)
}

// report returns the first step that no reader has ever requested, and the slowest reader of the furthest job.
func (d *readerDemand) report() (wanted uint64, slowest *state.ReaderStat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.firstUnrequested, d.demand.LeadingReader()
}

// planLimit returns the first step that must not be planned yet.
func (d *readerDemand) planLimit() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.firstUnrequested + d.ahead
}

// hasWaitingReader reports whether a reader waits for a step that is not planned.
func (d *readerDemand) hasWaitingReader() bool {
	planned := d.view.PlannedSteps()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.demand.HasWaiting(planned)
}

// hasReaders reports whether a rank reads the run, on any daemon.
func (d *readerDemand) hasReaders() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.demand.Needed != state.NoStep
}

// neededStep returns the first step that a job, a reader or a job that has not committed may still request. From then
// on the documents of earlier steps count as unneeded. During the replay they do not, because the committing jobs are
// not known yet.
func (d *readerDemand) neededStep(replays bool) uint64 {
	commits := d.view.Snapshot().Commits
	d.mu.Lock()
	defer d.mu.Unlock()
	_, retained := d.demand.RetainingJob(commits)
	step := min(commits.Committed(), d.demand.Needed, retained)
	if !replays {
		d.firstNeeded = max(d.firstNeeded, step)
	}
	return step
}

// retainedStep returns the first step that a reading job without a commit needs, and from which on all documents are
// present. It returns state.NoStep for any other job.
func (d *readerDemand) retainedStep(job string) uint64 {
	oldest := d.view.Snapshot().Oldest
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.demand.Jobs[job]; ok {
		return max(x.RetainFrom, d.firstNeeded, oldest)
	}
	return state.NoStep
}

// jobs returns the demand of every job.
func (d *readerDemand) jobs() map[string]state.JobDemand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.demand.Jobs)
}
