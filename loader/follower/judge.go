package follower

import (
	"errors"
	"time"

	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// Explain returns why a step is not planned yet, as its reader would receive it; nil if it is planned or the run has
// ended.
func (f *Follower) Explain(step uint64) *fault.Error {
	now := f.plan.Now()
	var e *fault.Error
	switch {
	case step < now.Steps || now.Ended:
		return nil
	case errors.As(now.Failed, &e):
		return e
	}
	return f.cause(step)
}

// cause returns why a step is not planned yet.
func (f *Follower) cause(step uint64) *fault.Error { return f.look(step).Cause() }

// look collects the evidence about a wait for a step.
func (f *Follower) look(step uint64) diagnosis.Evidence {
	return diagnosis.Evidence{Step: step, Planned: f.plan.Planned(), Keepers: f.plan.Now().Keepers,
		Report: f.Leader.Report(), Demand: f.Leader.Demanded(),
		Ranks: f.Ranks.Last(), Rates: f.RateSampler.Rates(), Config: f.config, Options: f.options, Supply: f.Supply}
}

// Unanswered returns why a request has had no answer within Options.Stall.
func (f *Follower) Unanswered() *fault.Error { return f.look(f.plan.Planned()).Unanswered() }

// alert returns the red finding of a job as an error; nil if there is none.
func (f *Follower) alert(k census.Key) *fault.Error {
	for _, j := range f.Ranks.Last().Jobs {
		if j.Key == k && j.Finding != nil && j.Finding.Level == census.Red {
			return diagnosis.RankCause(j.Finding)
		}
	}
	return nil
}

// beat adds a sample of the run's progress.
func (f *Follower) beat(now time.Time) { f.RateSampler.Add(f.look(f.plan.Planned()).Beat(now)) }

// judge evaluates the run, and updates the shown verdict.
func (f *Follower) judge(now time.Time) {
	shown, _ := f.steady.Verdict()
	f.steady.Take(now, f.verdict(now, shown))
}

// verdict evaluates the run at this moment, as observed by this daemon. shown is the currently shown verdict.
func (f *Follower) verdict(at time.Time, shown diagnosis.Verdict) diagnosis.Verdict {
	now := f.plan.Now()
	job, _ := f.Ranks.Buffered()
	return f.look(now.Steps).Verdict(diagnosis.Moment{At: at, Ended: now.Ended, Failed: now.Failed,
		RateSampler: &f.RateSampler, Buffered: job, Shown: shown})
}

// ShownVerdict returns the last verdict. The end of a run and its failure are shown immediately.
func (f *Follower) ShownVerdict() diagnosis.Verdict {
	now := f.plan.Now()
	if v, known := f.steady.Verdict(); known && !now.Ended && now.Failed == nil {
		return v
	}
	return f.verdict(time.Now(), diagnosis.Verdict{})
}
