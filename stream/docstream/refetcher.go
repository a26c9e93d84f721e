package docstream

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
	// rangeGap is the largest distance between two documents that one request reads. Reading the documents between them
	// costs less than another request. A direct get costs about three times as much as a document of a range.
	rangeGap = 4
	// rangeDocuments and rangeBytes bound one request.
	rangeDocuments = 256
	rangeBytes     = 512 << 10
	// maxConcurrentRanges bounds the concurrent requests, and so the bytes in flight.
	maxConcurrentRanges = 8
)

// Refetch calls f with each of several documents, from several goroutines at a time. The documents equal those that the
// source delivered. The sequences must ascend; one request reads those that are close together. A document that
// cannot be read now is left out, and Content returns the reason. An error means that no further document can be read
// now.
func (l *Log) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	if sequences = l.stored.deliver(ctx, sequences, f); len(sequences) == 0 {
		return ctx.Err()
	}
	defer l.store.BeginRead()()
	c := refetcher{log: l, deliver: f, workers: make(chan struct{}, l.workers)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentRanges)
	for len(sequences) > 0 && ctx.Err() == nil {
		n := rangeLength(sequences)
		wanted := sequences[:n]
		sequences = sequences[n:]
		g.Go(func() error {
			if len(wanted) == 1 {
				return c.fetchOne(ctx, wanted[0])
			}
			return c.fetchRange(ctx, wanted)
		})
	}
	return g.Wait()
}

// rangeLength returns how many of the leading sequences one request reads.
func rangeLength(sequences []uint64) int {
	for i := 1; i < len(sequences); i++ {
		if sequences[i]-sequences[i-1] > rangeGap || sequences[i]-sequences[0] >= rangeDocuments {
			return i
		}
	}
	return len(sequences)
}

// refetcher reads documents again for one call of Log.Refetch.
type refetcher struct {
	log     *Log
	deliver func(document.Document)
	workers chan struct{} // bounds concurrent decoding and tokenizing
}

// fetchOne reads a document without close neighbours.
func (c refetcher) fetchOne(ctx context.Context, sequence uint64) error {
	m, err := c.log.getMessage(ctx, sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	}
	return c.deliverAll(ctx, []message{*m})
}

// fetchRange reads documents that are close together.
func (c refetcher) fetchRange(ctx context.Context, wanted []uint64) error {
	for len(wanted) > 0 {
		found, next, err := messages.GetRange(ctx, c.log.store.Client, c.log.name, wanted[0], wanted[len(wanted)-1],
			rangeBytes)
		if err != nil {
			return err
		}
		if next <= wanted[0] {
			return nil // the replica does not have these messages yet
		}
		n, _ := slices.BinarySearch(wanted, next)
		messages := selectWanted(wanted[:n], found)
		wanted = wanted[n:]
		if len(messages) == 0 {
			continue
		}
		newest := slices.MaxFunc(messages, func(a, b message) int { return a.time.Compare(b.time) })
		// messages older than one of our stream are also of our stream
		if err := c.log.checkIdentity(ctx, &newest); err != nil {
			return err
		}
		if err := c.deliverAll(ctx, messages); err != nil {
			return err
		}
	}
	return nil
}

// selectWanted returns the messages of found whose sequences are wanted. Both arguments ascend.
func selectWanted(wanted []uint64, found []*jetstream.RawStreamMsg) []message {
	messages := make([]message, 0, len(wanted))
	for _, raw := range found {
		if _, ok := slices.BinarySearch(wanted, raw.Sequence); ok {
			messages = append(messages, rawMessage(raw))
		}
	}
	return messages
}

// deliverAll decodes the messages and delivers their documents.
func (c refetcher) deliverAll(ctx context.Context, messages []message) error {
	select {
	case c.workers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.workers }()
	e := c.log.workspaces.get()
	defer c.log.workspaces.put(e)
	for i := range messages {
		doc, _ := c.log.stored.documentOf(&messages[i], e) // an undecodable message has its dead letter
		c.deliver(doc)
	}
	return nil
}
