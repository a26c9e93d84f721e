package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
)

// noteAttempts bounds how often a leader tries to note a foreign record: whoever wrote it may write on.
const noteAttempts = 16

// foreign turns an append behind a position that failed since another record stands there into the reason to stop for good, where nobody who
// may write the plan can have written that record. A daemon that leads in this one's stead begins with a term, right behind this one's last
// record: so what stands there and is no term is not the run's. It may look right, a seal for instance, and whoever reads the plan next could
// not tell. So the plan gets a note of it, behind which nothing is followed.
func (l *Leader) foreign(ctx context.Context, after uint64, records [][]byte, failed error) error {
	if !errors.Is(failed, fault.ErrLeadershipLost) || l.term == 0 {
		return failed
	}
	at, b, err := l.other(ctx, after, records)
	var told *fault.Error
	if errors.As(err, &told) && told.Reason == fault.PlanForeign { // the log itself tells
		return err
	}
	if err != nil || b == nil { // the log is shorter than this process knows, or out of reach: that is for the next leader to find out
		return failed
	}
	e, err := plan.DecodeRecord(b)
	if _, term := e.(plan.Term); err == nil && term {
		return failed
	}
	what := "rubbish"
	if err == nil {
		what = planview.Describe(e)
	}
	if err := l.note(ctx, plan.Foreign{At: at}); err != nil {
		l.Log.Error("the plan has a record of none of the run's daemons, and no note of it", "record", at, "error", err)
	}
	return &fault.Error{Reason: fault.PlanForeign,
		Message: fmt.Sprintf("record %d of the plan of run %s (%s) was written by none of its daemons", at, l.Name, what),
		Do: "find out who can write to the plan's stream and stop them (docs/security.md), then copy what stands before that record into a usable plan " +
			"with loaderd repair",
		Facts: map[string]string{"run": l.Name, "record": strconv.FormatUint(at, 10)}}
}

// other finds the first record behind a position that is not the one that was to be appended there: some of them may have been stored.
func (l *Leader) other(ctx context.Context, after uint64, records [][]byte) (at uint64, b []byte, err error) {
	for i, want := range records {
		at = after + uint64(i) + 1
		if b, err = l.Backends.Plan.Get(ctx, at); err != nil || !bytes.Equal(b, want) {
			return at, b, err
		}
	}
	return 0, nil, nil
}

// note appends a note of a foreign record, wherever the plan ends by now.
func (l *Leader) note(ctx context.Context, f plan.Foreign) error {
	var err error
	for range noteAttempts {
		var last uint64
		if last, err = l.Backends.Plan.Last(ctx); err != nil {
			return err
		}
		if err = l.Backends.Plan.Append(ctx, last, plan.EncodeRecord(f)); !errors.Is(err, fault.ErrLeadershipLost) {
			return err
		}
	}
	return err
}
