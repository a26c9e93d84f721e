package loader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// write is something that the loop decided to append to the plan log. Nobody sees a step before it is stored there.
type write struct {
	after   uint64 // position that it follows
	records [][]byte
	step    *Step  // becomes readable
	stored  func() // runs when it is stored; may be nil
}

// logTail identifies the end of a plan log.
type logTail struct {
	position uint64
	check    uint32 // the last record's checksum
}

func tailOf(position uint64, record []byte) logTail {
	return logTail{position, binary.LittleEndian.Uint32(record[len(record)-4:])}
}

// append hands records to the writer. It blocks while the plan log is behind.
func (l *loop) append(ctx context.Context, w write) error {
	w.after = l.tail.position
	if n := len(w.records); n > 0 {
		l.tail = tailOf(w.after+uint64(n), w.records[n-1])
	}
	select {
	case l.writes <- w:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeBatch bounds the records of one append.
const writeBatch = 256

// write appends what the loop decided, in its order. What waits while one append is under way goes into the next together.
func (r *Run) write(ctx context.Context, in <-chan write) error {
	for w := range in {
		batch, records := []write{w}, w.records
		for more := true; more && len(records) < writeBatch; {
			select {
			case w, ok := <-in:
				if more = ok; ok {
					batch, records = append(batch, w), append(records, w.records...)
				}
			default:
				more = false
			}
		}
		if err := r.store(ctx, batch[0].after, records); err != nil {
			return err
		}
		for _, w := range batch {
			if w.step != nil {
				r.publish(w.step)
			}
			if w.stored != nil {
				w.stored()
			}
		}
	}
	return nil
}

func (r *Run) store(ctx context.Context, after uint64, records [][]byte) error {
	if len(records) == 0 {
		return nil
	}
	r.update(func() { r.storing = time.Now() })
	err := r.edges.Plan.Append(ctx, after, records...)
	r.update(func() { r.storing = time.Time{} })
	switch {
	case errors.Is(err, ErrDeposed):
		return &Error{Reason: NotLeading, Message: "another process appended to the plan of run " + r.name, Do: "let it lead, or stop it and restart this one", Err: err}
	case err != nil:
		return fmt.Errorf("append to the plan log: %w", err)
	}
	return nil
}
