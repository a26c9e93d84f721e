package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loaderd/loader/plan"
)

// write is what the loop decided to append to the plan log in one piece. Nobody sees a step before it is stored there.
type write struct {
	after   uint64 // position of the record that it follows
	records [][]byte
	step    *plan.Step                // becomes readable
	stored  func(ctx context.Context) // runs when it is stored, in the writer; may be nil
}

// append hands records to the writer. It blocks while the plan log is behind.
func (l *loop) append(ctx context.Context, w write) error {
	w.after = l.tail.Position
	if n := len(w.records); n > 0 {
		l.tail = plan.TailOf(w.after+uint64(n), w.records[n-1])
	}
	select {
	case l.writes <- w:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	writeBatch = 256     // records of one append, unless one step alone has more
	writeBytes = 8 << 20 // likewise bytes
	batchPays  = 12      // an atomic batch costs the server about as much as this many single appends
)

// write appends what the loop decided, in its order. What comes while the log takes one append goes into the next one together.
func (l *leader) write(ctx context.Context, in <-chan write) error {
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

// fitting returns how many writes one append takes. All of a step go together: a log that ends within a step could not be continued.
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

// store appends the records of consecutive writes, all or none, and then makes them known.
func (l *leader) store(ctx context.Context, writes []write) error {
	var records [][]byte
	for _, w := range writes {
		records = append(records, w.records...)
	}
	if len(records) > 0 {
		l.update(func() { l.storing = time.Now() })
		err := l.edges.Plan.Append(ctx, writes[0].after, records...)
		l.update(func() { l.storing = time.Time{} })
		switch {
		case errors.Is(err, ErrDeposed):
			return &Error{Reason: NotLeading, Message: "another process appended to the plan of run " + l.name, Err: err,
				Do: "let it lead, or stop it and restart this one"}
		case err != nil:
			return fmt.Errorf("append to the plan log: %w", err)
		}
	}
	for _, w := range writes {
		if w.step != nil {
			l.plan.extend(w.step)
		}
		if w.stored != nil {
			w.stored(ctx)
		}
	}
	return nil
}
