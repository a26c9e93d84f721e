package doclog

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"loaderd/loader/document"
	"loaderd/stream/messages"
)

const (
	// rangeGap is the largest distance of two documents that are read by one request: those between them cost less than
	// another request. A direct get costs about three times what a document of a range does.
	rangeGap = 4
	// rangeDocuments and rangeBytes bound the documents of a request.
	rangeDocuments = 256
	rangeBytes     = 512 << 10
	// rangesAtOnce bounds the requests that are on the way, and so the bytes in flight.
	rangesAtOnce = 8
)

// Again calls f with each of several documents, equal to what the source delivered, by several goroutines at a time.
// The sequences ascend: those that lie close together are read by one request. What cannot be read now is left out, and
// Content says why; an error says that no more can be read now.
func (l *Log) Again(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	defer l.store.Reading()()
	c := again{log: l, deliver: f, workers: make(chan struct{}, l.workers)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rangesAtOnce)
	for len(sequences) > 0 && ctx.Err() == nil {
		n := reach(sequences)
		wanted := sequences[:n]
		sequences = sequences[n:]
		g.Go(func() error {
			if len(wanted) == 1 {
				return c.one(ctx, wanted[0])
			}
			return c.several(ctx, wanted)
		})
	}
	return g.Wait()
}

// reach returns how many of the first sequences one request reads.
func reach(sequences []uint64) int {
	for i := 1; i < len(sequences); i++ {
		if sequences[i]-sequences[i-1] > rangeGap || sequences[i]-sequences[0] >= rangeDocuments {
			return i
		}
	}
	return len(sequences)
}

// again reads documents again for one caller.
type again struct {
	log     *Log
	deliver func(document.Document)
	workers chan struct{} // has room for those who may decode and tokenize at a time
}

// one reads a document that lies by itself.
func (c again) one(ctx context.Context, sequence uint64) error {
	m, err := c.log.get(ctx, sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	}
	return c.decode(ctx, []message{*m})
}

// several reads documents that lie close together.
func (c again) several(ctx context.Context, wanted []uint64) error {
	for len(wanted) > 0 {
		found, next, err := messages.GetRange(ctx, c.log.store.Client, c.log.name, wanted[0], wanted[len(wanted)-1],
			rangeBytes)
		if err != nil {
			return err
		}
		if next <= wanted[0] {
			return nil // a replica that has nothing of it yet
		}
		n, _ := slices.BinarySearch(wanted, next)
		messages := choose(wanted[:n], found)
		wanted = wanted[n:]
		if len(messages) == 0 {
			continue
		}
		newest := slices.MaxFunc(messages, func(a, b message) int { return a.time.Compare(b.time) })
		if err := c.log.own(ctx, &newest); err != nil { // what is older than a message of our stream is of our stream
			return err
		}
		if err := c.decode(ctx, messages); err != nil {
			return err
		}
	}
	return nil
}

// choose returns those of the messages that are wanted. Both ascend.
func choose(wanted []uint64, found []*jetstream.RawStreamMsg) []message {
	messages := make([]message, 0, len(wanted))
	for _, raw := range found {
		if _, ok := slices.BinarySearch(wanted, raw.Sequence); ok {
			messages = append(messages, message{sequence: raw.Sequence, subject: raw.Subject, header: raw.Header, data: raw.Data,
				time: raw.Time})
		}
	}
	return messages
}

// decode delivers what the messages hold.
func (c again) decode(ctx context.Context, messages []message) error {
	select {
	case c.workers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.workers }()
	e := c.log.encoder.get()
	defer c.log.encoder.put(e)
	for i := range messages {
		doc, _ := c.log.document(&messages[i], e) // one that cannot be decoded has its dead letter
		c.deliver(doc)
	}
	return nil
}
