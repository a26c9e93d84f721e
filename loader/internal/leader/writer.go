package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
)

// planWrite holds records that the loop passes to the writer and that are appended together. No reader gets a step
// before the plan log holds it.
type planWrite struct {
	afterPosition uint64 // position of the record before the first
	records       [][]byte
	step          *plan.Step                // becomes readable once the records are stored; may be nil
	onStored      func(ctx context.Context) // the writer calls it once the records are stored; may be nil
}

// planWriter appends to the plan log what the loop passes to it, while this process leads.
type planWriter struct {
	run    string
	plan   backend.PlanLog
	view   *planview.View
	log    *slog.Logger
	term   *term
	status *status
}

const (
	maxWriteRecords = 256     // maximum records per append; a step with more is appended alone
	maxWriteBytes   = 8 << 20 // maximum bytes per append; a step with more is appended alone
	minBatchRecords = 12      // an atomic batch costs the server about as much as this many single appends
)

// writeAll appends the records that it receives, in order. All writes that arrive during one append go into the next
// one together.
func (p *planWriter) writeAll(ctx context.Context, in <-chan planWrite) error {
	for w := range in {
		group, records := []planWrite{w}, len(w.records)
		for more := true; more && records < maxWriteRecords; {
			select {
			case w, ok := <-in:
				if more = ok; ok {
					group, records = append(group, w), records+len(w.records)
				}
			default:
				more = false
			}
		}
		for n := 0; len(group) > 0; group = group[n:] {
			n = 1
			if records >= minBatchRecords {
				n = countFitting(group)
			}
			if err := p.write(ctx, group[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// countFitting returns how many writes go into one append. The records of a step are never split, because no leader
// could continue a log that ends within a step.
func countFitting(writes []planWrite) (n int) {
	records, bytes := 0, 0
	for _, w := range writes {
		records += len(w.records)
		for _, b := range w.records {
			bytes += len(b)
		}
		if n > 0 && (records > maxWriteRecords || bytes > maxWriteBytes) {
			break
		}
		n++
	}
	return n
}

// write appends the records of consecutive writes, all or none, then makes their steps readable and calls stored.
func (p *planWriter) write(ctx context.Context, writes []planWrite) error {
	var records [][]byte
	for _, w := range writes {
		records = append(records, w.records...)
	}
	if err := p.verify(ctx); err != nil {
		return err
	}
	if err := p.append(ctx, writes[0].afterPosition, records); err != nil {
		return err
	}
	for _, w := range writes {
		if w.step != nil {
			p.view.AddStep(w.step)
		}
		if err := p.view.ApplyWrite(w.afterPosition, w.records, w.step); err != nil {
			return err
		}
		if w.onStored != nil {
			w.onStored(ctx)
		}
	}
	return nil
}

// verify blocks while it is in doubt whether this process leads.
func (p *planWriter) verify(ctx context.Context) error {
	if p.term.verifyLease == nil { // no other process could lead
		return nil
	}
	p.status.setRenewing(time.Now())
	defer p.status.setRenewing(time.Time{})
	return p.term.verify(ctx)
}

// append appends records after a position, all or none.
func (p *planWriter) append(ctx context.Context, after uint64, records [][]byte) error {
	if len(records) == 0 {
		return nil
	}
	p.status.setStoring(time.Now())
	err := p.plan.Append(ctx, after, records...)
	p.status.setStoring(time.Time{})
	if err != nil {
		return p.term.leadershipError(p.checkForeign(ctx, after, records, fmt.Errorf("append to the plan log: %w", err)))
	}
	return nil
}
