package leader

import (
	"context"
	"fmt"

	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// Command asks the leader for a record of the plan, or for a checkpoint.
type Command struct {
	Entry plan.Entry // what to record, a control without its place; nil asks for a checkpoint
	reply chan<- Result
	// DryRun records nothing, but checks a change of the mixture.
	DryRun bool
	// inspect gets the loop's applier and tail, and nothing is recorded; nil for other commands.
	inspect func(*planner.Applier, plan.Tail)
}

// Result is what a request returns: a change of the mixture, a document's sequence for other controls, a step for
// commits and checkpoints.
type Result struct {
	At  uint64
	Mix *state.MixResult
	err error
}

func refusal(reason fault.Reason, format string, args ...any) Result {
	return Result{err: &fault.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// tell answers a request that needs no record: once all is stored that the answer rests on, and if this process still
// leads then. Else the next leader is asked, which may know better.
func (l *loop) tell(ctx context.Context, q Command, a Result) error {
	return l.append(ctx, write{stored: func(context.Context) { q.reply <- a }})
}

// handle records what a request asks for, or answers it when there is nothing to record.
func (l *loop) handle(ctx context.Context, q Command) error {
	switch e := q.Entry.(type) {
	case nil:
		if q.inspect != nil {
			q.inspect(l.applier, l.tail)
			q.reply <- Result{}
			return nil
		}
		return l.ask(ctx, q)
	case plan.Commit:
		return l.commit(ctx, e, q)
	case plan.Leave:
		if _, known := l.applier.Keepers[e.Keeper]; !known {
			return l.tell(ctx, q, Result{At: l.applier.Keepers.Committed()})
		}
		return l.keep(ctx, e, q)
	case plan.Seal:
		return l.seal(ctx, e, q)
	case plan.Control:
		return l.decide(ctx, e, q)
	}
	q.reply <- refusal(fault.BadTicket, "nobody can ask for a record of kind %d", q.Entry.Kind())
	return nil
}

func (l *loop) commit(ctx context.Context, c plan.Commit, q Command) error {
	planned, keepers := l.leader.setup.View.Planned(), l.applier.Keepers
	_, known := keepers[c.Keeper]
	step, changes := keepers.After(c)
	if !known { // documents that the others have committed may be gone, but for those that its own job retains
		step = max(step, min(keepers.Committed(), l.leader.demand.retained(c.Keeper)))
	}
	switch {
	case c.Step > planned:
		return l.tell(ctx, q, refusal(fault.BadTicket, "commit of step %d, but the plan holds %d steps", c.Step, planned))
	case !known && len(keepers) == plan.MaxKeepers:
		return l.tell(ctx, q, refusal(fault.BadTicket, "the run has %d keepers, and %q would be one more: let one leave first", plan.MaxKeepers, c.Keeper))
	case !changes:
		return l.tell(ctx, q, Result{At: keepers.Committed()})
	}
	return l.keep(ctx, plan.Commit{Keeper: c.Keeper, Step: step}, q)
}

// keep appends a change of keepers. Once it is stored, it counts and the request is answered.
func (l *loop) keep(ctx context.Context, e plan.Entry, q Command) error {
	l.applier.Record(e)
	keepers := l.applier.Keepers
	return l.append(ctx, write{records: [][]byte{plan.EncodeRecord(e)}, stored: func(context.Context) {
		l.leader.setup.View.Keep(keepers)
		q.reply <- Result{At: keepers.Committed()}
	}})
}

// noEnd is the answer while it is not known which document is the last one.
func noEnd(err error) Result {
	return Result{err: &fault.Error{Reason: fault.SourceDown, Message: "cannot read the end of the document stream", Err: err, Do: "try again"}}
}

// control appends a control; it takes effect when the planner has taken the arrival that it stands behind.
func (l *loop) control(ctx context.Context, c plan.Control, stored func(context.Context)) error {
	l.applier.Record(c)
	l.leader.length.Recorded()
	return l.append(ctx, write{records: [][]byte{plan.EncodeRecord(c)}, stored: stored})
}
