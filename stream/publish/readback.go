package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/messages"
)

// ids is a set of message ids, 16 bytes each.
type ids map[[16]byte]struct{}

func idKey(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

// remove removes id and reports whether it was present.
func (s ids) remove(id string) bool {
	key := idKey(id)
	_, ok := s[key]
	delete(s, key)
	return ok
}

// readBackTimeout bounds the wait for the source's last message. A longer wait means that the server has failed.
const readBackTimeout = 10 * time.Second

// lastMessage returns the last message of the publisher's subject. In a cluster it requests the message from the
// leader, because even a lagging server responds to a direct get.
func (p *Publisher) lastMessage(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	if p.store.Clustered() {
		return messages.GetLast(ctx, p.store.Client, p.store.Config().Name, p.subject)
	}
	return p.stream.GetLastMsgForSubject(ctx, p.subject)
}

// readBackConfirmed is readBack after a write that a majority of the stream's servers has stored, if that is permitted.
// It misses nothing that was stored before. The result of readBack alone may be stale. That is safe for a send that
// expects the last sequence that readBack returns, because the server rejects a send that is based on stale ids.
func (p *Publisher) readBackConfirmed(ctx context.Context, after uint64) (known ids, err error) {
	err = p.store.RetryWithin(ctx, readBackAttemptTimeout, "read back "+p.subject, func(ctx context.Context) error {
		if err := messages.TryBarrier(ctx, p.store.Client, p.stream); err != nil {
			return err
		}
		known, _, err = p.readBack(ctx, after)
		return err
	})
	return known, err
}

// readBackAttemptTimeout bounds one attempt to read all headers of a source.
const readBackAttemptTimeout = time.Hour

// readBack returns the ids of the messages of the publisher's subject after a sequence, and the sequence of the last
// of all its messages (0 for none). It reads headers only.
func (p *Publisher) readBack(ctx context.Context, after uint64) (ids, uint64, error) {
	call, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	newest, err := p.lastMessage(call)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read last message of %s: %w", p.subject, err)
	}
	last := newest.Sequence
	if last <= after {
		return nil, last, nil
	}
	known := ids{}
	add := func(id string) {
		if id != "" {
			known[idKey(id)] = struct{}{}
		}
	}
	add(newest.Header.Get(jetstream.MsgIDHeader))
	if after+1 == last {
		return known, last, nil
	}
	// The last message may be purged meanwhile, so it was added first.
	err = messages.EachHeader(ctx, p.store.Client, p.stream, p.subject, after+1, last-1,
		func(sequence uint64, h nats.Header) bool {
			if sequence < last {
				add(h.Get(jetstream.MsgIDHeader))
			}
			return sequence < last
		})
	if err != nil {
		return nil, 0, fmt.Errorf("read back %s: %w", p.subject, err)
	}
	return known, last, nil
}
