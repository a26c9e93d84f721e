package leader

import (
	"context"

	"loaderd/loader/planrecord"
)

// recordQueue hands the records of the loop to the writer.
type recordQueue struct {
	tail    planrecord.Tail // last record that was handed to the writer
	writes  chan<- write    // to the writer ...
	written <-chan struct{} // ... which closes this when it accepts no further writes
}

// append hands records to the writer, also after ctx is done: a graceful stop loses nothing that was decided. It blocks
// while the writer's queue is full.
func (q *recordQueue) append(ctx context.Context, w write) error {
	w.after = q.tail.Position
	if n := len(w.records); n > 0 {
		q.tail = planrecord.TailOf(w.after+uint64(n), w.records[n-1])
	}
	select {
	case q.writes <- w:
		return nil
	case <-q.written: // it has failed: that ends ctx
		<-ctx.Done()
		return ctx.Err()
	}
}

// reply sends the result of a command that needs no record, once all records before are stored, and if this process
// still leads then. Else the next leader handles the command, which may have newer records.
func (q *recordQueue) reply(ctx context.Context, c Command, r Result) error {
	return q.append(ctx, write{stored: func(context.Context) { c.reply <- r }})
}
