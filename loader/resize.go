package loader

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/internal/cluster"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/rendezvous"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// Resize adds the request of a rank that its job has another world size from a step on. Each rank of the new world size
// repeats its request every second or more often until the result is Agreed; then the plan records the world size. It
// returns a *fault.Error if the world size does not divide the rows of a step, or if another rank requests something
// else.
func (r *Run) Resize(ctx context.Context, q state.ResizeRequest) (state.ResizeResult, error) {
	if err := q.Validate(); err != nil {
		return state.ResizeResult{}, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	if err := follower.CheckWorldSize(r.plan.Schedule(), q.Step, q.World); err != nil && !q.Withdraw {
		return state.ResizeResult{}, err
	}
	return r.worlds.change(ctx, q)
}

// worldSizes changes the world sizes of jobs in the plan, and compares readers with them.
type worldSizes struct {
	plan     *planview.View
	follower *follower.Follower
	timeout  time.Duration // of a request
	request  func(ctx, limit context.Context, q cluster.Request) (leader.Result, error)
	log      *slog.Logger
	logged   atomic.Pointer[silentWait]
}

// silentWait is a logged wait for the silent streams of a former world size.
type silentWait struct {
	former census.Key
	at     time.Time
}

// change requests a world size from the leader.
func (w *worldSizes) change(ctx context.Context, q state.ResizeRequest) (state.ResizeResult, error) {
	limit, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	a, err := w.request(ctx, limit, cluster.Request{Resize: &q})
	if err != nil {
		return state.ResizeResult{}, err
	}
	if a.Resize == nil {
		return state.ResizeResult{}, &fault.Error{Reason: fault.RunFailed,
			Message: "the leader's answer to a change of the world size is empty", Advice: "run one version on all daemons"}
	}
	return *a.Resize, nil
}

// recorded returns the world size of a reader's job in the plan, and whether it differs from that of the reader.
func (w *worldSizes) recorded(place state.RankID) (size planrecord.WorldSize, differs bool) {
	size, known := w.plan.Snapshot().WorldSizes[place.JobName()]
	return size, known && size.Ranks != place.World
}

// await returns once the world size of a reader is that of its job in the plan, if the job has one there. If no client
// that has the recorded one reports, the job was stopped, and the plan records that of the reader. It returns
// WORLD_CONFLICT if other readers have the recorded one, or are about to open their streams after they have agreed on
// it. It returns the error of ctx if ctx is done before.
//
// Streams of a lost machine remain open until pings have no answer. They do not delay a restart for longer than
// census.SilentAfter, and end once the restarted job has streams.
func (w *worldSizes) await(ctx context.Context, place state.RankID, step uint64) error {
	q := state.ResizeRequest{RankID: place, Step: step, Restart: true}
	if _, differs := w.recorded(place); !differs || q.Validate() != nil {
		return nil // the follower rejects an invalid place
	}
	if err := follower.CheckWorldSize(w.plan.Schedule(), step, place.World); err != nil {
		return err
	}
	if err := w.follow(ctx); err != nil {
		return err
	}
	const (
		// of a process that was killed; other daemons report it within a second, as they do with reports of clients
		streamEnd = 3 * time.Second
		patience  = rendezvous.SettleTime + streamEnd
		longest   = 400 * time.Millisecond // between two attempts
	)
	pause := 50 * time.Millisecond
	for began := time.Now(); ctx.Err() == nil; _ = waiting.Sleep(ctx, pause) {
		pause = min(2*pause, longest)
		size, differs := w.recorded(place)
		if !differs {
			return nil
		}
		now := time.Now()
		former := census.Key{Job: place.JobName(), World: size.Ranks}
		if open := w.follower.Ranks.OpenStreams(former); open.Count > 0 && !open.AreSilent(now) {
			reports := open.LastReport.After(began)
			if reports && now.Sub(began) >= streamEnd {
				err := follower.WorldConflictError(place, step, size)
				err.Message += ", with open streams of " + nameStreams(open)
				return err
			}
			if !reports && now.Sub(open.LastReport) >= streamEnd {
				w.logSilent(former, open, place.World)
			}
			continue
		}
		q.Step = min(step, w.plan.PlannedSteps())
		recorded, err := w.restart(ctx, q)
		var conflict *fault.Error
		retry := errors.As(err, &conflict) && conflict.Reason == fault.WorldConflict && now.Sub(began) < patience
		if recorded || err != nil && !retry {
			return err
		}
	}
	return ctx.Err()
}

// restart records the world size of a restarted job, and reports whether this process has the record. Until then, its
// readers conflict with silent streams of the former world size.
func (w *worldSizes) restart(ctx context.Context, q state.ResizeRequest) (recorded bool, err error) {
	if _, err := w.change(ctx, q); err != nil {
		return false, err
	}
	if _, differs := w.recorded(q.RankID); !differs {
		return true, nil
	}
	err = w.follow(ctx)
	_, differs := w.recorded(q.RankID)
	return err == nil && !differs, err
}

// follow reads the records of the plan that this process does not have yet.
func (w *worldSizes) follow(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := w.plan.Follow(limit)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limit.Err() != nil:
		return w.follower.UnansweredCause()
	}
	return err
}

// logSilent logs that a restarted job waits for streams whose clients do not report. It is one message for all ranks.
func (w *worldSizes) logSilent(former census.Key, open census.OpenStreams, world int) {
	wait := &silentWait{former, time.Now()}
	last := w.logged.Load()
	if last != nil && last.former == former && wait.at.Sub(last.at) < census.SilentAfter ||
		!w.logged.CompareAndSwap(last, wait) {
		return
	}
	w.log.Warn("restarted job waits for silent streams of its former world size", "job", former.Job, "ranks", world,
		"former_ranks", former.World, "open", nameStreams(open), "at_most",
		max(0, census.SilentAfter-time.Since(open.LastReport)).Round(time.Millisecond))
}

// nameStreams names ranks with open streams, and where the first one is.
func nameStreams(open census.OpenStreams) string {
	text := diagnosis.NameRanks(open.Ranks, open.Count)
	switch {
	case open.Address != "":
		text += ", the first at " + open.Address
	case open.Daemon != "":
		text += ", the first at daemon " + open.Daemon
	}
	return text
}
