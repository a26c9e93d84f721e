package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/planrecord"
)

// term is the right of this process to append to the plan: the term's record in the plan log, and the lease.
type term struct {
	run    string
	daemon string
	plan   backend.PlanLog
	log    *slog.Logger
	// verifyLease blocks while it is in doubt whether this process leads; nil if no other process could lead.
	verifyLease func(context.Context) error
	// position is that of the term's record; 0 before the term. It is set before the goroutines of the leader start.
	position uint64
}

// termRetryPause is the time before the next attempt to begin a term. An attempt fails while another process appends,
// and if the end of the plan that was read is outdated.
const termRetryPause = 5 * time.Millisecond

// appendTerm appends the term's record at the current end of the plan. After that no earlier leader can append to the
// plan.
func (t *term) appendTerm(ctx context.Context) error {
	record := planrecord.Encode(planrecord.Term{Daemon: t.daemon})
	for {
		last, err := t.plan.Last(ctx)
		if err != nil {
			return fmt.Errorf("read plan log: %w", err)
		}
		err = t.plan.Append(ctx, last, record)
		if err == nil {
			t.position = last + 1
			t.log.Info("acquired leadership", event.LeadershipAcquired, "term", t.position)
			return nil
		}
		if !errors.Is(err, fault.ErrLeadershipLost) {
			return fmt.Errorf("append to the plan log: %w", err)
		}
		if err := waiting.Sleep(ctx, termRetryPause); err != nil {
			return err
		}
	}
}

// verify blocks while it is in doubt whether this process leads.
func (t *term) verify(ctx context.Context) error {
	if t.verifyLease == nil {
		return nil
	}
	return t.verifyLease(ctx)
}

// isUncertain reports whether it is currently in doubt whether this process leads.
func (t *term) isUncertain() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // makes verify return immediately
	return t.verify(ctx) != nil
}

// leadershipError converts ErrLeadershipLost into the reason why this process no longer leads. It returns other errors
// unchanged.
func (t *term) leadershipError(err error) error {
	if !errors.Is(err, fault.ErrLeadershipLost) {
		return err
	}
	return &fault.Error{Reason: fault.NotLeading, Message: "another process leads run " + t.run, Err: err,
		Advice: "let it lead, or stop it and restart this one"}
}
