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
	// tellAfter is how long readers wait for a step before the reason is logged.
	tellAfter = 10 * time.Second
	// tellAgain is the minimum interval at which the same reason is logged with other figures.
	tellAgain = time.Minute
)

// stallLogger logs why readers wait: after a wait of tellAfter, when the cause changes, and when the step is planned.
type stallLogger struct {
	follower *Follower
	since    time.Time    // start of the logged wait; zero without one
	reason   fault.Reason // last logged reason
	facts    map[string]string
	told     map[fault.Reason]time.Time // last log time of each reason
	gone     time.Time                  // since when no reader exists; zero while one exists
	ranks    map[census.Key]string      // jobs whose missing ranks were logged, and these ranks
}

// LogStalls checks every diagnosis.BeatInterval whether readers wait, until ctx is done.
func (f *Follower) LogStalls(ctx context.Context) {
	w := stallLogger{follower: f, told: map[fault.Reason]time.Time{}, ranks: map[census.Key]string{}}
	f.beat(time.Now())
	tick := time.NewTicker(diagnosis.BeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.muster()
			f.beat(time.Now())
			f.judge(time.Now())
			w.look(time.Now())
			w.logRanks(f.Ranks.Last())
		case <-ctx.Done():
			return
		}
	}
}

func (w *stallLogger) look(now time.Time) {
	since, readers := w.follower.waiting()
	plan := w.follower.plan.Now()
	over := plan.Ended || plan.Failed != nil
	if !w.since.IsZero() && (since != w.since || over) {
		w.follower.log.Warn("stall resolved", event.StallResolved, "step", plan.Steps, "waited",
			now.Sub(w.since).Round(time.Second))
		w.since = time.Time{}
	}
	if readers > 0 {
		w.gone = time.Time{}
	} else if w.gone.IsZero() {
		w.gone = now
	}
	switch {
	case over || since.IsZero() || now.Sub(since) < tellAfter:
		return
	case readers == 0:
		if now.Sub(w.gone) >= tellAfter { // a reader that received the cause as an error reconnects within seconds
			w.follower.relieve()
			w.since = time.Time{}
		}
		return
	}
	e := w.follower.Explain(plan.Steps)
	if e == nil || now.Sub(w.told[e.Reason]) < tellAgain || e.Reason == w.reason && maps.Equal(e.Facts, w.facts) {
		return
	}
	w.since, w.reason, w.facts, w.told[e.Reason] = since, e.Reason, e.Facts, now
	w.follower.log.Warn("readers wait for a step", event.StallStarted, "step", plan.Steps, "readers", readers, "waited",
		now.Sub(since).Round(time.Second),
		"reason", e.Reason, "cause", e.Message, "do", e.Do)
}

// logRanks logs which ranks hold back their jobs, and when they no longer do. Only the leader's daemon logs this.
func (w *stallLogger) logRanks(v census.View) {
	if w.follower.Leader.Report().Elsewhere {
		clear(w.ranks)
		return
	}
	missing := map[census.Key]string{}
	for _, j := range v.Jobs {
		f := j.Finding
		if f == nil || f.Level < census.Red {
			continue
		}
		ranks := diagnosis.Joined(f.Ranks)
		if missing[j.Key] = ranks; w.ranks[j.Key] != ranks {
			e := diagnosis.RankCause(f)
			w.follower.log.Warn("rank missing", event.RankMissing, "job", f.Job, "world", f.World, "ranks", ranks, "state",
				f.State, "step", f.Step, "cause", e.Message, "do", e.Do)
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
