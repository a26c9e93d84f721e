package follower

import (
	"context"
	"maps"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

const (
	// logAfter is how long readers wait for a step before the reason is logged.
	logAfter = 10 * time.Second
	// logInterval is the minimum interval at which the same reason is logged with other figures.
	logInterval = time.Minute
)

// stallLogger logs why readers wait: after a wait of logAfter, when the cause changes, and when the step is planned.
type stallLogger struct {
	follower      *Follower
	since         time.Time    // start of the logged wait; zero without one
	reason        fault.Reason // last logged reason
	facts         map[string]string
	lastLogged    map[fault.Reason]time.Time // last log time of each reason
	noReaderSince time.Time                  // since when no reader exists; zero while one exists
	ranks         map[census.Key]string      // jobs whose missing ranks were logged, and these ranks
}

// LogStalls checks every diagnosis.SampleInterval whether readers wait, until ctx is done.
func (f *Follower) LogStalls(ctx context.Context) {
	w := stallLogger{follower: f, lastLogged: map[fault.Reason]time.Time{}, ranks: map[census.Key]string{}}
	f.addSample(time.Now())
	tick := time.NewTicker(diagnosis.SampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.updateRanks()
			f.addSample(time.Now())
			f.updateVerdict(time.Now())
			w.logStall(time.Now())
			w.logRanks(f.Ranks.LastView())
		case <-ctx.Done():
			return
		}
	}
}

func (w *stallLogger) logStall(now time.Time) {
	since, readers := w.follower.waitingReaders()
	plan := w.follower.plan.Snapshot()
	over := plan.Ended || plan.Failure != nil
	if !w.since.IsZero() && (since != w.since || over) {
		w.follower.log.Warn("stall resolved", event.StallResolved, "step", plan.Steps, "waited",
			now.Sub(w.since).Round(time.Second))
		w.since = time.Time{}
	}
	if readers > 0 {
		w.noReaderSince = time.Time{}
	} else if w.noReaderSince.IsZero() {
		w.noReaderSince = now
	}
	switch {
	case over || since.IsZero() || now.Sub(since) < logAfter:
		return
	case readers == 0:
		if now.Sub(w.noReaderSince) >= logAfter { // a reader that received the cause as an error reconnects within seconds
			w.follower.resetWait()
			w.since = time.Time{}
		}
		return
	}
	e := w.follower.StallCause(plan.Steps)
	if e == nil || now.Sub(w.lastLogged[e.Reason]) < logInterval || e.Reason == w.reason && maps.Equal(e.Facts, w.facts) {
		return
	}
	w.since, w.reason, w.facts, w.lastLogged[e.Reason] = since, e.Reason, e.Facts, now
	w.follower.log.Warn("readers wait for a step", event.StallStarted, "step", plan.Steps, "readers", readers, "waited",
		now.Sub(since).Round(time.Second),
		"reason", e.Reason, "cause", e.Message, "do", e.Advice)
}

// logRanks logs which ranks hold back their jobs, and when they no longer do. Only the leader's daemon logs this.
func (w *stallLogger) logRanks(v census.View) {
	if w.follower.Leader.Report().Remote {
		clear(w.ranks)
		return
	}
	missing := map[census.Key]string{}
	for _, j := range v.Jobs {
		f := j.Finding
		if f == nil || f.Level < census.Critical {
			continue
		}
		ranks := diagnosis.JoinRanks(f.Ranks)
		if missing[j.Key] = ranks; w.ranks[j.Key] != ranks {
			e := diagnosis.RankCause(f)
			w.follower.log.Warn("rank missing", event.RankMissing, "job", f.Job, "world", f.World, "ranks", ranks, "state",
				f.State, "step", f.Step, "cause", e.Message, "do", e.Advice)
		}
	}
	for k, ranks := range w.ranks {
		if missing[k] == "" {
			w.follower.log.Info("missing rank resolved", event.RankResolved, "job", k.Job, "world", k.World,
				"ranks", ranks)
		}
	}
	w.ranks = missing
}
