package leader

import (
	"context"
	"fmt"
	"time"

	"loaderd/loader/plan"
)

// write holds records that the loop hands to the writer and that are appended together. Nobody sees a step before the plan log holds it.
type write struct {
	after   uint64 // position of the record before the first
	records [][]byte
	step    *plan.Step                // becomes readable once the records are stored; may be nil
	stored  func(ctx context.Context) // the writer calls it once the records are stored; may be nil
}

// append hands records to the writer, also after ctx is done: a graceful stop loses nothing that was decided. It blocks while the writer's queue
// is full.
func (l *loop) append(ctx context.Context, w write) error {
	w.after = l.tail.Position
	if n := len(w.records); n > 0 {
		l.tail = plan.TailOf(w.after+uint64(n), w.records[n-1])
	}
	select {
	case l.writes <- w:
		return nil
	case <-l.written: // it has failed: that ends ctx
		<-ctx.Done()
		return ctx.Err()
	}
}

const (
	writeBatch = 256     // most records of one append; a step that has more is appended alone
	writeBytes = 8 << 20 // most bytes of one append, likewise
	batchPays  = 12      // an atomic batch costs the server about as much as this many single appends
)

// write appends what the loop hands over, in order. All that comes during one append goes into the next one together.
func (l *Leader) write(ctx context.Context, in <-chan write) error {
	for w := range in {
		group, records := []write{w}, len(w.records)
		for more := true; more && records < writeBatch; {
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
			if records >= batchPays {
				n = fitting(group)
			}
			if err := l.store(ctx, group[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitting returns how many writes go into one append. The records of a step are never parted: nobody could continue a log that ends
// within a step.
func fitting(writes []write) (n int) {
	records, bytes := 0, 0
	for _, w := range writes {
		records += len(w.records)
		for _, b := range w.records {
			bytes += len(b)
		}
		if n > 0 && (records > writeBatch || bytes > writeBytes) {
			break
		}
		n++
	}
	return n
}

// store appends the records of consecutive writes, all or none, then makes their steps readable and calls stored.
func (l *Leader) store(ctx context.Context, writes []write) error {
	var records [][]byte
	for _, w := range writes {
		records = append(records, w.records...)
	}
	if l.sure != nil {
		l.update(func() { l.renewing = time.Now() })
		err := l.sure(ctx)
		l.update(func() { l.renewing = time.Time{} })
		if err != nil {
			return err
		}
	}
	if len(records) > 0 {
		l.update(func() { l.storing = time.Now() })
		err := l.Backends.Plan.Append(ctx, writes[0].after, records...)
		l.update(func() { l.storing = time.Time{} })
		if err != nil {
			return l.deposed(l.foreign(ctx, writes[0].after, records, fmt.Errorf("append to the plan log: %w", err)))
		}
	}
	for _, w := range writes {
		if w.step != nil {
			l.View.Extend(w.step)
		}
		if err := l.View.Wrote(w.after, w.records, w.step); err != nil {
			return err
		}
		if w.stored != nil {
			w.stored(ctx)
		}
	}
	return nil
}
