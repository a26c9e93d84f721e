package assembly

import (
	"context"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/planview"
)

// refetcher reads documents again, each only once at a time regardless of the number of callers. Documents that a
// batch waits for are read one by one; documents ahead of the readers are read in bulk. The content is put into the
// cache.
type refetcher struct {
	docs  *planview.Streams
	cache *contentCache
	limit time.Duration // time limit for reading one document

	mu           sync.Mutex
	pendingReads map[uint64]*pendingRead
}

// pendingRead is the pending read of a document.
type pendingRead struct {
	step      uint64        // the step that needs it
	done      chan struct{} // closed when the fields below are set
	content   document.Content
	err       error
	performed bool // false: the claimant did not read the document; the reason is unknown
}

func newRefetcher(docs *planview.Streams, cache *contentCache, limit time.Duration) *refetcher {
	return &refetcher{docs: docs, cache: cache, limit: limit, pendingReads: map[uint64]*pendingRead{}}
}

// claimRead returns the pending read of a document. mine reports whether the caller must perform it.
func (a *refetcher) claimRead(sequence, step uint64) (c *pendingRead, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.pendingReads[sequence]; ok {
		return c, false
	}
	c = &pendingRead{step: step, done: make(chan struct{})}
	a.pendingReads[sequence] = c
	return c, true
}

// finishRead ends a claim. The content is in the cache before the document can be claimed again.
func (a *refetcher) finishRead(sequence uint64, c *pendingRead) {
	if c.performed && c.err == nil {
		a.cache.put(sequence, c.step, c.content)
	}
	a.mu.Lock()
	delete(a.pendingReads, sequence)
	a.mu.Unlock()
	close(c.done)
}

// fetch returns the content of a document that a step needs.
func (a *refetcher) fetch(ctx context.Context, sequence, step uint64) (document.Content, error) {
	for {
		c, mine := a.claimRead(sequence, step)
		if mine {
			// The read serves all callers that wait, so it must not be cancelled together with the caller that started it.
			go a.readContent(context.WithoutCancel(ctx), sequence, c)
		}
		select {
		case <-ctx.Done():
			return document.Content{}, ctx.Err()
		case <-c.done:
		}
		if c.performed {
			return c.content, c.err
		}
	}
}

func (a *refetcher) readContent(ctx context.Context, sequence uint64, c *pendingRead) {
	defer a.finishRead(sequence, c)
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	c.performed = true
	if text, ok := a.cache.peek(sequence); ok { // cached since the caller's lookup
		c.content = text
		return
	}
	c.content, c.err = a.docs.Content(ctx, sequence)
}

// fetchMany reads documents, in ascending order, into the cache, except those that are cached or being read. needs maps
// documents to the steps that need them. It leaves out documents that it cannot read; a later read returns the
// reason.
func (a *refetcher) fetchMany(ctx context.Context, sequences []uint64, needs map[uint64]uint64) error {
	claims := map[uint64]*pendingRead{}
	var wanted []uint64
	for _, sequence := range sequences {
		c, mine := a.claimRead(sequence, needs[sequence])
		if !mine {
			continue
		}
		if _, ok := a.cache.peek(sequence); ok {
			a.finishRead(sequence, c)
			continue
		}
		claims[sequence] = c
		wanted = append(wanted, sequence)
	}
	defer func() {
		for sequence, c := range claims {
			if !c.performed {
				a.finishRead(sequence, c)
			}
		}
	}()
	return a.docs.Refetch(ctx, wanted, func(d document.Document) {
		if d.Skip != "" { // not used by any plan
			return
		}
		c := claims[d.Sequence]
		c.content, c.performed = d.Content, true
		a.finishRead(d.Sequence, c)
	})
}
