package assembly

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	peer  Peer          // nil: none

	mu           sync.Mutex
	pendingReads map[uint64]*pendingRead
}

// Peer is another daemon, which may have documents in memory.
type Peer interface {
	// Ready reports whether documents may be requested now.
	Ready() bool
	// Fetch calls f with each of the documents, in ascending order, that the other daemon sends within a short time.
	Fetch(ctx context.Context, refs []uint64, f func(ref uint64, c document.Content))
}

// pendingRead is the pending read of a document.
type pendingRead struct {
	step      uint64        // the step that needs it
	done      chan struct{} // closed when the fields below are set
	content   document.Content
	err       error
	performed bool // false: the claimant did not read the document; the reason is unknown
	shared    bool // whether a caller of fetch uses the content
}

func newRefetcher(docs *planview.Streams, cache *contentCache, limit time.Duration) *refetcher {
	return &refetcher{docs: docs, cache: cache, limit: limit, pendingReads: map[uint64]*pendingRead{}}
}

// claimRead returns the pending read of a document. mine reports whether the caller must perform it. share reports that
// the caller will use the content.
func (a *refetcher) claimRead(sequence, step uint64, share bool) (c *pendingRead, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.pendingReads[sequence]; ok {
		c.shared = c.shared || share
		return c, false
	}
	c = &pendingRead{step: step, shared: share, done: make(chan struct{})}
	a.pendingReads[sequence] = c
	return c, true
}

// finishRead ends a claim. The content is in the cache before the document can be claimed again.
func (a *refetcher) finishRead(sequence uint64, c *pendingRead) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.performed && c.err == nil {
		a.cache.put(sequence, c.step, c.content, c.shared)
	}
	delete(a.pendingReads, sequence)
	close(c.done)
}

// fetch returns the content of a document that a step needs.
func (a *refetcher) fetch(ctx context.Context, sequence, step uint64) (document.Content, error) {
	for {
		c, mine := a.claimRead(sequence, step, true)
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
	r := a.claimMany(sequences, func(sequence uint64) uint64 { return needs[sequence] })
	defer r.abandon()
	if a.hasPeer() {
		r.fetchNearby(ctx)
	}
	return a.docs.Refetch(ctx, r.wanted, func(d document.Document) {
		if d.Skip == "" { // otherwise not used by any plan
			r.finish(d.Sequence, d.Content)
		}
	})
}

// fetchNearby reads documents that a step needs into the cache, as far as the local disk or another daemon has them. It
// returns false if neither may have any.
func (a *refetcher) fetchNearby(ctx context.Context, sequences []uint64, step uint64) bool {
	if !a.hasPeer() && !a.docs.HasStored() {
		return false
	}
	r := a.claimMany(slices.Sorted(slices.Values(sequences)), func(uint64) uint64 { return step })
	defer r.abandon()
	r.fetchNearby(ctx)
	return true
}

// hasPeer reports whether documents may be requested from another daemon.
func (a *refetcher) hasPeer() bool { return a.peer != nil && a.peer.Ready() }

// bulkRead is the pending read of several documents.
type bulkRead struct {
	refetcher *refetcher
	claims    map[uint64]*pendingRead
	wanted    []uint64 // not yet read, ascending
}

// claimMany begins to read documents, except those that are cached or being read. step returns the step that needs a
// document. The caller must call abandon.
func (a *refetcher) claimMany(sequences []uint64, step func(sequence uint64) uint64) *bulkRead {
	r := &bulkRead{refetcher: a, claims: map[uint64]*pendingRead{}}
	for _, sequence := range sequences {
		c, mine := a.claimRead(sequence, step(sequence), false)
		if !mine {
			continue
		}
		if a.cache.contains(sequence) {
			a.finishRead(sequence, c)
			continue
		}
		r.claims[sequence] = c
		r.wanted = append(r.wanted, sequence)
	}
	return r
}

// storedChunk is the number of documents that a goroutine reads from the local disk: enough that starting it does not
// matter.
const storedChunk = 64

// fetchNearby reads the documents that the local disk or another daemon has.
func (r *bulkRead) fetchNearby(ctx context.Context) {
	a := r.refetcher
	if a.docs.HasStored() {
		var g errgroup.Group
		g.SetLimit(maxFetches)
		for part := range slices.Chunk(r.wanted, storedChunk) {
			g.Go(func() error {
				for _, sequence := range part {
					if content, ok := a.docs.Stored(ctx, sequence); ok {
						r.finish(sequence, content)
					}
				}
				return nil
			})
		}
		_ = g.Wait() // there are no errors
		r.dropFinished()
	}
	if len(r.wanted) > 0 && a.hasPeer() {
		a.peer.Fetch(ctx, r.wanted, r.finish)
		r.dropFinished()
	}
}

// dropFinished removes the documents that were read from those that are wanted.
func (r *bulkRead) dropFinished() {
	r.wanted = slices.DeleteFunc(r.wanted, func(sequence uint64) bool { return r.claims[sequence].performed })
}

// finish ends the read of a document.
func (r *bulkRead) finish(sequence uint64, content document.Content) {
	c := r.claims[sequence]
	c.content, c.performed = content, true
	r.refetcher.finishRead(sequence, c)
}

// abandon ends the reads of documents that were not read.
func (r *bulkRead) abandon() {
	for sequence, c := range r.claims {
		if !c.performed {
			r.refetcher.finishRead(sequence, c)
		}
	}
}
