package follower

import (
	"errors"
	"time"

	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// StallCause returns why a step is not planned yet, as its reader would receive it; nil if it is planned or the run has
// ended.
func (f *Follower) StallCause(step uint64) *fault.Error {
	now := f.plan.Snapshot()
	var e *fault.Error
	switch {
	case step < now.Steps || now.Ended:
		return nil
	case errors.As(now.Failure, &e):
		return e
	}
	return f.stallCause(step)
}

// stallCause returns why a step is not planned yet.
func (f *Follower) stallCause(step uint64) *fault.Error { return f.collectEvidence(step).Cause() }

// collectEvidence collects the evidence about a wait for a step.
func (f *Follower) collectEvidence(step uint64) diagnosis.Evidence {
	return diagnosis.Evidence{Step: step, Planned: f.plan.PlannedSteps(), Commits: f.plan.Snapshot().Commits,
		Report: f.Leader.Report(), Demand: f.Leader.TotalDemand(),
		Ranks: f.Ranks.LastView(), Rates: f.RateSampler.Rates(), Config: f.config, Options: f.options,
		PullStatus: f.PullStatus}
}

// UnansweredCause returns why a request has had no answer within Options.Stall.
func (f *Follower) UnansweredCause() *fault.Error {
	return f.collectEvidence(f.plan.PlannedSteps()).UnansweredCause()
}

// rankAlert returns the red finding of a job as an error; nil if there is none.
func (f *Follower) rankAlert(k census.Key) *fault.Error {
	for _, j := range f.Ranks.LastView().Jobs {
		if j.Key == k && j.Finding != nil && j.Finding.Level == census.Critical {
			return diagnosis.RankCause(j.Finding)
		}
	}
	return nil
}

// addSample adds a sample of the run's progress.
func (f *Follower) addSample(now time.Time) {
	f.RateSampler.Add(f.collectEvidence(f.plan.PlannedSteps()).Sample(now))
}

// updateVerdict evaluates the run, and updates the shown verdict.
func (f *Follower) updateVerdict(now time.Time) {
	shown, _ := f.shownVerdict.Verdict()
	f.shownVerdict.Update(now, f.evaluate(now, shown))
}

// evaluate evaluates the run at this moment, as observed by this daemon. shown is the currently shown verdict.
func (f *Follower) evaluate(at time.Time, shown diagnosis.Verdict) diagnosis.Verdict {
	now := f.plan.Snapshot()
	job, _ := f.Ranks.BufferedJob()
	return f.collectEvidence(now.Steps).Verdict(diagnosis.VerdictInput{At: at, Ended: now.Ended, Failed: now.Failure,
		RateSampler: &f.RateSampler, BufferedJob: job, Shown: shown})
}

// ShownVerdict returns the last verdict. The end of a run and its failure are shown immediately.
func (f *Follower) ShownVerdict() diagnosis.Verdict {
	now := f.plan.Snapshot()
	if v, known := f.shownVerdict.Verdict(); known && !now.Ended && now.Failure == nil {
		return v
	}
	return f.evaluate(time.Now(), diagnosis.Verdict{})
}
