package assembly

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
)

// Assembler adds the content of documents to rows of references. It depends only on the plan and the document stream,
// so all assemblers return the same batches.
type Assembler struct {
	refetcher *refetcher
	pad       int32
}

// New returns an assembler with a cache of cacheBytes. While there are no readers, the last recent steps count as
// needed. limit bounds reading one document, and pad is the padding id.
func New(docs *planview.Streams, cacheBytes int64, recent uint64, limit time.Duration, pad int32) *Assembler {
	return &Assembler{refetcher: newRefetcher(docs, newContentCache(cacheBytes, recent), limit), pad: pad}
}

// OnDocument caches a document that the planner is about to read as that arrival.
func (a *Assembler) OnDocument(ref, arrival uint64, c document.Content) {
	a.refetcher.cache.onDocument(ref, arrival, c)
}

// OnStep records which tokens a planned step uses of the documents before it.
func (a *Assembler) OnStep(s *plan.Step) { a.refetcher.cache.onStep(s) }

// SetNeeded sets the first step whose rows readers may still request; state.NoStep without readers.
func (a *Assembler) SetNeeded(step uint64) { a.refetcher.cache.setNeeded(step) }

// ReadAhead reads documents, in ascending order, into the cache, except those that it has or that are being read.
// needs maps documents to the steps that need them. Documents that cannot be read now are left out.
func (a *Assembler) ReadAhead(ctx context.Context, refs []uint64, needs map[uint64]uint64) error {
	return a.refetcher.fetchMany(ctx, refs, needs)
}

// SetPeer sets a daemon that may have documents. It must be called before the assembler is used.
func (a *Assembler) SetPeer(p Peer) { a.refetcher.peer = p }

// ViewContent calls f with the content of a cached document, which stays unchanged until f returns. It returns false if
// the document is not cached.
func (a *Assembler) ViewContent(ref uint64, f func(document.Content)) bool {
	x := a.refetcher.cache.lend(ref)
	if x == nil {
		return false
	}
	f(x.content)
	a.refetcher.cache.release([]*cacheEntry{x})
	return true
}

// Touch records that a step needs a document, and makes it the most recently used one. It returns its size in bytes;
// false if it is not in the cache.
func (a *Assembler) Touch(ref, step uint64) (bytes int64, ok bool) {
	return a.refetcher.cache.touch(ref, step)
}

// CachedStepBytes returns the approximate size in bytes of the rows of a step. ok reports whether all its documents are
// known to be in the cache.
func (a *Assembler) CachedStepBytes(step uint64) (bytes int64, ok bool) {
	return a.refetcher.cache.cachedStepBytes(step)
}

// Stats returns the size of the cache in bytes, and its numbers of hits and misses.
func (a *Assembler) Stats() (bytes, hits, misses int64) { return a.refetcher.cache.stats() }

// EstimateBytes returns the approximate size in bytes of that many tokens of a document in the cache.
func EstimateBytes(tokens int32) int64 { return entryBytes + document.NumberBytes*int64(tokens) }

// maxFetches bounds the number of documents that one batch fetches concurrently.
const maxFetches = 8

// Assemble returns rows [first, first+n) of a step.
func (a *Assembler) Assemble(ctx context.Context, s *plan.Step, first, n int) (*Batch, error) {
	if first < 0 || n < 0 || first+n > len(s.Rows) {
		return nil, fmt.Errorf("assemble step %d: rows [%d, +%d) of %d", s.Index, first, n, len(s.Rows))
	}
	b := &Batch{Step: s.Index, Bucket: int(s.Bucket), First: first, Rows: n, Pieces: s.Rows[first : first+n], Pad: a.pad}
	texts, err := a.fetchContents(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("assemble step %d: %w", s.Index, err)
	}
	b.Contents = texts
	b.StoreTimes = make([]int64, 0, len(texts))
	for i, pieces := range b.Pieces {
		left := b.Bucket
		for _, p := range pieces {
			text := texts[p.Doc]
			if behind := int(p.Start) + int(p.Length); behind > text.Len() || int(p.Length) > left {
				return nil, &fault.Error{Reason: fault.PlanMismatch,
					Message: fmt.Sprintf("step %d row %d names tokens [%d, %d) of %s, which has %d", s.Index, first+i, p.Start, behind,
						a.refetcher.docs.DocumentName(p.Doc), text.Len()),
					Advice: "the document or the tokenizer is not the one that was planned; check the tokenizer and the stream",
					Facts: map[string]string{"step": strconv.FormatUint(s.Index, 10),
						"sequence": strconv.FormatUint(plan.RefSequence(p.Doc), 10)}}
			}
			left -= int(p.Length)
			if p.Start == 0 && text.Stored > 0 {
				b.StoreTimes = append(b.StoreTimes, text.Stored)
			}
			if p.Start == 0 && text.Trace != nil {
				b.TracedDocuments = append(b.TracedDocuments, document.TracedDocument{Trace: text.Trace, Document: p.Doc,
					Row:    first + i,
					Stored: text.Stored})
			}
		}
	}
	masks, weighs, several := len(s.Repeats) > 0, false, false
	for _, text := range texts {
		masks, weighs = masks || text.Loss != nil, weighs || text.HasWeights()
		several = several || text.Docs != nil
	}
	if masks {
		b.setLoss(s, texts)
	}
	if weighs {
		b.setWeights(texts)
	}
	if several {
		b.setPieceDocuments(texts)
	}
	return b, nil
}

// setLoss sets which tokens have a loss.
func (b *Batch) setLoss(s *plan.Step, texts map[uint64]document.Content) {
	repeats := s.Repeats
	for len(repeats) > 0 && repeats[0].Row < b.First {
		repeats = repeats[1:]
	}
	for i, pieces := range b.Pieces {
		var lengths []int32 // alternating lengths of runs without and with a loss
		for k, p := range pieces {
			if len(repeats) > 0 && repeats[0].Row == b.First+i && repeats[0].Piece == k {
				n := repeats[0].Tokens
				lengths = append(lengths, 0, n)
				p.Start, p.Length = p.Start+n, p.Length-n
				repeats = repeats[1:]
			}
			lengths = texts[p.Doc].Loss.AppendRuns(lengths, p.Start, p.Start+p.Length)
		}
		if runs := plan.NewLossRuns(lengths); runs != nil {
			if b.Loss == nil {
				b.Loss = make([]plan.LossRuns, b.Rows)
			}
			b.Loss[i] = runs
		}
	}
}

// setPieceDocuments sets which document of its message each piece belongs to.
func (b *Batch) setPieceDocuments(texts map[uint64]document.Content) {
	b.PieceDocuments = make([][]PieceDocument, b.Rows)
	for i, pieces := range b.Pieces {
		b.PieceDocuments[i] = make([]PieceDocument, len(pieces))
		for k, p := range pieces {
			index, start := texts[p.Doc].DocAt(p.Start)
			b.PieceDocuments[i][k] = PieceDocument{int32(index), start}
		}
	}
}

// setWeights sets the loss weights of the pieces. A message with weights alone does not suffice: the weight may be 1,
// or belong to another document of the message.
func (b *Batch) setWeights(texts map[uint64]document.Content) {
	weights, others := make([][]float32, b.Rows), false
	for i, pieces := range b.Pieces {
		weights[i] = make([]float32, len(pieces))
		for k, p := range pieces {
			weights[i][k] = texts[p.Doc].WeightAt(p.Start)
			others = others || weights[i][k] != 1
		}
	}
	if others {
		b.Weights = weights
	}
}

// borrow adds the content of a document from the cache to texts. It returns false if x is nil.
func (b *Batch) borrow(x *cacheEntry, texts map[uint64]document.Content) bool {
	if x == nil {
		return false
	}
	texts[x.document] = x.content
	b.borrowed = append(b.borrowed, x)
	return true
}

// fetchContents returns the content of every document of the batch. Cached content is borrowed from the cache.
func (a *Assembler) fetchContents(ctx context.Context, b *Batch) (map[uint64]document.Content, error) {
	named := 0
	for _, pieces := range b.Pieces {
		named += len(pieces)
	}
	texts := make(map[uint64]document.Content, named)
	b.cache, b.borrowed = a.refetcher.cache, make([]*cacheEntry, 0, named)
	var missing []uint64
	for _, pieces := range b.Pieces {
		for _, p := range pieces {
			if _, ok := texts[p.Doc]; !ok && !b.borrow(b.cache.acquire(p.Doc), texts) {
				missing = append(missing, p.Doc)
				texts[p.Doc] = document.Content{}
			}
		}
	}
	if len(missing) > 0 && a.refetcher.fetchNearby(ctx, missing, b.Step) {
		missing = slices.DeleteFunc(missing, func(d uint64) bool { return b.borrow(b.cache.borrow(d), texts) })
	}
	fetched := make([]document.Content, len(missing))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxFetches)
	for i, sequence := range missing {
		g.Go(func() (err error) {
			if fetched[i], err = a.refetcher.fetch(ctx, sequence, b.Step); err != nil && ctx.Err() == nil {
				err = fmt.Errorf("fetch %s: %w", a.refetcher.docs.DocumentName(sequence), err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, sequence := range missing {
		texts[sequence] = fetched[i]
	}
	return texts, nil
}
