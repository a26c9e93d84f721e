package leader

import (
	"context"

	"loaderd/loader/planrecord"
)

// recordQueue passes the records of the loop to the writer.
type recordQueue struct {
	tail       planrecord.Tail  // last record that was passed to the writer
	writes     chan<- planWrite // to the writer
	writerDone <-chan struct{}  // closed by the writer when it accepts no further writes
}

// append passes records to the writer, even after ctx is done, so that a graceful stop loses no decided record. It
// blocks while the writer's queue is full.
func (q *recordQueue) append(ctx context.Context, w planWrite) error {
	w.afterPosition = q.tail.Position
	if n := len(w.records); n > 0 {
		q.tail = planrecord.NewTail(w.afterPosition+uint64(n), w.records[n-1])
	}
	select {
	case q.writes <- w:
		return nil
	case <-q.writerDone: // the writer has failed, which ends ctx
		<-ctx.Done()
		return ctx.Err()
	}
}

// reply sends the result of a command that needs no record, once all earlier records are stored and if this process
// still leads then. Otherwise the next leader, which may have newer records, handles the command.
func (q *recordQueue) reply(ctx context.Context, c Command, r Result) error {
	return q.append(ctx, planWrite{onStored: func(context.Context) { c.reply <- r }})
}
