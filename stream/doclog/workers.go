package doclog

import (
	"context"
	"sync"

	"loaderd/loader"
)

// A chunk is a few documents that follow one another. Chunks go to the workers and, in stream order, to Next: what is small is handed
// over by the dozen, because a hand-over costs as much as tokenizing a kilobyte.
type chunk struct {
	messages []message // emptied by the worker
	docs     []tokenized
	size     int
	done     chan struct{} // closed when docs is complete
	err      error         // the reader failed behind the documents of earlier chunks
}

// tokenized is a document and what it is charged against the budget.
type tokenized struct {
	doc  loader.Document
	cost charge
}

const (
	chunkDocuments = 64
	chunkBytes     = 64 << 10
)

func (c *chunk) full() bool { return len(c.messages) >= chunkDocuments || c.size >= chunkBytes }

// charge is what a document costs the budget.
type charge struct {
	reserved int64 // of the bound
	held     int64 // bytes of payload and tokens
}

const (
	// tokenizing is by how much a document may grow in memory: a text of n bytes has at most n tokens of 4 bytes beside it. (Invalid
	// UTF-8 may have more; the charge is set right when they are known.)
	tokenizing = 5
	// overhead is what a document costs besides its payload and tokens, in bytes.
	overhead = 128
)

// fetchedCost is the charge of a document that waits to be tokenized. It is at most tokenizing times its size on the wire, so that
// the bytes of a request for messages can be had from the budget's room before anyone knows how they split.
func fetchedCost(m *message) charge {
	return charge{reserved: tokenizing * int64(m.size), held: int64(m.size)}
}

// tokenizedCost is the charge of a document that waits for Next.
func tokenizedCost(d loader.Document) charge {
	held := 4 * int64(cap(d.Tokens))
	return charge{reserved: held + overhead, held: held}
}

// budget bounds the bytes of documents between the wire and Next.
type budget struct {
	bound int64
	freed chan struct{} // has a value when room grew

	mu   sync.Mutex
	used charge
}

func newBudget(bound int64) *budget { return &budget{bound: bound, freed: make(chan struct{}, 1)} }

// move replaces one charge by another.
func (b *budget) move(from, to charge) {
	b.mu.Lock()
	b.used.reserved += to.reserved - from.reserved
	b.used.held += to.held - from.held
	b.mu.Unlock()
	if to.reserved < from.reserved {
		select {
		case b.freed <- struct{}{}:
		default:
		}
	}
}

// room is how many bytes on the wire may be asked for now; empty says that nothing is charged.
func (b *budget) room() (bytes int64, empty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.bound-b.used.reserved, 0) / tokenizing, b.used.reserved == 0
}

// most is the room of an empty budget.
func (b *budget) most() int64 { return b.bound / tokenizing }

func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.held
}

// work tokenizes chunks until there are no more.
func (r *reader) work(ctx context.Context) {
	e := r.log.encoder.get()
	defer r.log.encoder.put(e)
	for {
		select {
		case c := <-r.jobs:
			r.tokenize(ctx, c, e)
		case <-ctx.Done():
			return
		}
	}
}

func (r *reader) tokenize(ctx context.Context, c *chunk, e *encoder) {
	defer close(c.done)
	c.docs = make([]tokenized, len(c.messages))
	var empty, undecoded, tokens int64
	for i := range c.messages {
		m := &c.messages[i]
		doc, failed := r.log.document(m, e)
		if failed != nil {
			if r.log.letters != nil {
				r.log.letters.Put(ctx, m.original(), failed)
			}
			undecoded++
		} else if doc.Skip != "" {
			empty++
		}
		tokens += int64(len(doc.Tokens))
		c.docs[i] = tokenized{doc, tokenizedCost(doc)}
		r.budget.move(fetchedCost(m), c.docs[i].cost)
		*m = message{}
	}
	c.messages = nil
	r.mu.Lock()
	r.status.Empty += empty
	r.status.Undecoded += undecoded
	r.status.Tokens += tokens
	r.mu.Unlock()
}
