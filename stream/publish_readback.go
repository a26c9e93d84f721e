package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ids is a set of message ids, 16 bytes each.
type ids map[[16]byte]struct{}

func idKey(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

// take removes id and says whether it was there.
func (s ids) take(id string) bool {
	key := idKey(id)
	_, ok := s[key]
	delete(s, key)
	return ok
}

// readBackPatience bounds the wait for one more message while reading back: longer means that the server is gone.
const readBackPatience = 10 * time.Second

// readBack returns the ids of the messages of the publisher's subject after a sequence, and the sequence of the last of all its
// messages (0 when there is none). It reads headers only.
func (p *Publisher) readBack(ctx context.Context, after uint64) (ids, uint64, error) {
	call, cancel := context.WithTimeout(ctx, readBackPatience)
	defer cancel()
	newest, err := p.stream.GetLastMsgForSubject(call, p.subject)
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
	if err := p.eachHeader(ctx, after+1, last, add); err != nil {
		return nil, 0, err
	}
	return known, last, nil
}

// eachHeader calls f with the id of every message of the subject from first up to but without last, which may be purged meanwhile.
func (p *Publisher) eachHeader(ctx context.Context, first, last uint64, f func(id string)) error {
	if first >= last {
		return nil
	}
	consumer, err := p.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{p.subject},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    first,
		HeadersOnly:    true,
	})
	if err != nil {
		return fmt.Errorf("read back %s: %w", p.subject, err)
	}
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read back %s: %w", p.subject, err)
	}
	defer messages.Stop()
	for {
		next, cancel := context.WithTimeout(ctx, readBackPatience)
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if err != nil {
			return fmt.Errorf("read back %s: %w", p.subject, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read back %s: %w", p.subject, err)
		}
		if meta.Sequence.Stream < last {
			f(m.Headers().Get(jetstream.MsgIDHeader))
		}
		if meta.Sequence.Stream >= last || meta.NumPending == 0 {
			return nil
		}
	}
}
