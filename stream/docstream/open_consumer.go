package docstream

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/messages"
)

// directReadInterval is the interval of direct reads while a consumer is being created.
const directReadInterval = 50 * time.Millisecond

// openConsumer creates the consumer that follows the stream from r.next on. A cluster needs a leader to create it. That
// leader may have just failed together with the daemon that led the run. Until the consumer exists, begin reads
// documents by requests that any replica serves.
func (r *reader) openConsumer(ctx context.Context) (*pullConsumer, error) {
	open := func(from uint64) (*pullConsumer, error) {
		return openPullConsumer(ctx, r.log.store.Client, r.log.stream, from, r.log.inactive)
	}
	if !r.log.store.Clustered() {
		return open(r.next)
	}
	if err := r.readDirect(ctx); err != nil {
		return nil, err
	}
	type answer struct {
		p   *pullConsumer
		err error
	}
	made, from := make(chan answer, 1), r.next
	go func() {
		p, err := open(from)
		made <- answer{p, err}
	}()
	var failed error
	for tick := time.NewTicker(directReadInterval); ; {
		select {
		case a := <-made:
			tick.Stop()
			if a.err != nil || failed == nil && r.next == from {
				return a.p, a.err
			}
			a.p.close() // it would deliver again what was read meanwhile
			if failed != nil {
				return nil, failed
			}
			return open(r.next)
		case <-tick.C:
			if failed == nil {
				failed = r.readDirect(ctx)
			}
		}
	}
}

// readDirect reads what the stream holds from r.next on, while the budget has room and the replica has documents. It
// ignores failed reads. The consumer reads the remaining documents and shows the cause.
func (r *reader) readDirect(ctx context.Context) error {
	for {
		room, ok := r.requestSize()
		if !ok || room == 0 { // the consumer reads a document that exceeds the room
			return r.flush(ctx)
		}
		raw, _, err := messages.GetRange(ctx, r.log.store.Client, r.log.name, r.next, r.next+rangeDocuments-1,
			int(min(room, rangeBytes)))
		if err != nil || len(raw) == 0 {
			return r.flush(ctx)
		}
		found := r.consecutive(raw, room)
		if len(found) == 0 {
			return r.flush(ctx)
		}
		newest := slices.MaxFunc(found, func(a, b message) int { return a.time.Compare(b.time) })
		// messages older than one of our stream are also of our stream
		if err := r.log.checkIdentity(ctx, &newest); err != nil {
			return err
		}
		r.setUp()
		for i := range found {
			if err := r.addMessage(ctx, &found[i], found[i].sequence); err != nil {
				return err
			}
		}
	}
}

// consecutive returns the leading messages that follow each other from r.next on and fit into room bytes.
func (r *reader) consecutive(raw []*jetstream.RawStreamMsg, room int64) []message {
	found := make([]message, 0, len(raw))
	for i, raw := range raw {
		m := rawMessage(raw)
		if room -= int64(m.size); m.sequence != r.next+uint64(i) || room < 0 {
			break
		}
		found = append(found, m)
	}
	return found
}
