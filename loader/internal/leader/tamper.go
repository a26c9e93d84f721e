package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// maxNoteAttempts bounds how often a leader tries to record a foreign record. The foreign writer may append further
// records.
const maxNoteAttempts = 16

// checkForeign handles an append that failed because another record is stored at its position. If no process that may
// write the plan can have written that record, it returns the reason to stop permanently; otherwise it returns
// failed.
//
// Another daemon that leads begins with a term, directly after the last record of this one. A record there that is no
// term is foreign to the run. It may be well-formed, for instance a seal, and no later reader of the plan could
// detect it. So a note of the record is appended to the plan, and no daemon follows the plan beyond the note.
func (p *planWriter) checkForeign(ctx context.Context, after uint64, records [][]byte, failed error) error {
	if !errors.Is(failed, fault.ErrLeadershipLost) || p.term.position == 0 {
		return failed
	}
	at, b, err := p.firstDifference(ctx, after, records)
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Reason == fault.PlanForeign { // the log itself detected it
		return err
	}
	if err != nil || b == nil { // the log is shorter than expected or unreachable: the next leader determines why
		return failed
	}
	e, err := planrecord.Decode(b)
	if _, term := e.(planrecord.Term); err == nil && term {
		return failed
	}
	what := "rubbish"
	if err == nil {
		what = planview.DescribeEntry(e)
	}
	if err := p.noteForeign(ctx, planrecord.Foreign{Position: at}); err != nil {
		p.log.Error("plan has a foreign record, and it cannot be marked", "record", at, "error", err)
	}
	return &fault.Error{Reason: fault.PlanForeign,
		Message: fmt.Sprintf("record %d of the plan of run %s (%s) was written by none of its daemons",
			at, p.run, what),
		Advice: "determine which client can write to the plan's stream and stop it (docs/explanation/security.md), then " +
			"copy the records before it to a usable plan with loaderd run repair",
		Facts: map[string]string{"run": p.run, "record": strconv.FormatUint(at, 10)}}
}

// firstDifference returns the first record after a position that differs from the one to be appended there. Some of
// the records may have been stored.
func (p *planWriter) firstDifference(ctx context.Context, after uint64, records [][]byte) (
	at uint64, b []byte, err error,
) {
	for i, want := range records {
		at = after + uint64(i) + 1
		if b, err = p.plan.Get(ctx, at); err != nil || !bytes.Equal(b, want) {
			return at, b, err
		}
	}
	return 0, nil, nil
}

// noteForeign appends a note of a foreign record at the current end of the plan.
func (p *planWriter) noteForeign(ctx context.Context, f planrecord.Foreign) error {
	var err error
	for range maxNoteAttempts {
		var last uint64
		if last, err = p.plan.Last(ctx); err != nil {
			return err
		}
		if err = p.plan.Append(ctx, last, planrecord.Encode(f)); !errors.Is(err, fault.ErrLeadershipLost) {
			return err
		}
	}
	return err
}
