package docstream

import (
	"context"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/stream/deadletter"
)

// chunk is a few consecutive documents. Chunks go to the workers and, in stream order, to the receiver. Small
// documents share a chunk, because handing one over costs as much as tokenizing a kilobyte.
type chunk struct {
	document.Chunk
	messages []message     // returned to the reader's spares by the worker
	size     int           // bytes of messages on the wire, and of stored documents
	cost     charge        // of Documents against the budget
	done     chan struct{} // Ready
}

const (
	chunkDocuments = 64
	chunkBytes     = 64 << 10
)

// newChunk returns a chunk without messages. It reuses the message buffer of a tokenized chunk if one is available.
func (r *reader) newChunk() *chunk {
	c := &chunk{done: make(chan struct{})}
	c.Ready = c.done
	select {
	case c.messages = <-r.spareBuffers:
	default:
		c.messages = make([]message, 0, chunkDocuments)
	}
	return c
}

// failedChunk returns the chunk that reports an error after the last document.
func failedChunk(err error) *chunk {
	c := &chunk{done: make(chan struct{})}
	c.Ready, c.Err = c.done, err
	close(c.done)
	return c
}

// isReady reports whether the chunk is tokenized, or has an error.
func (c *chunk) isReady() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *chunk) isFull() bool { return len(c.messages) >= chunkDocuments || c.size >= chunkBytes }

// charge is the cost of a document in the budget.
type charge struct {
	reserved int64 // bytes of the bound in use
	held     int64 // bytes of payload and tokens
}

const (
	// tokenizingFactor is how many times its size a document may take while it is tokenized. A text of n bytes takes n
	// bytes and at most n tokens of 4 bytes. Invalid UTF-8 may have more tokens; the charge is corrected when they are
	// counted.
	tokenizingFactor = 5
	// documentOverhead is the cost of a document besides its payload and tokens, in bytes.
	documentOverhead = 128
)

// fetchedCost returns the charge of a document until a worker has processed it. Before tokenization it depends on the
// size on the wire alone. A request bounded in bytes is therefore within the budget, however many messages it returns.
func fetchedCost(m *message) charge {
	if m.stored != nil {
		return tokenizedCost(*m.stored)
	}
	return charge{reserved: tokenizingFactor * int64(m.size), held: int64(m.size)}
}

// tokenizedCost returns the charge of a document from its tokenizing until it is delivered.
func tokenizedCost(d document.Document) charge {
	held := d.Bytes()
	return charge{reserved: held + documentOverhead, held: held}
}

// budget bounds the bytes of documents that are fetched and not delivered.
type budget struct {
	bound int64
	freed chan struct{} // gets a value when room has grown

	mu   sync.Mutex
	used charge
}

func newBudget(bound int64) *budget { return &budget{bound: bound, freed: make(chan struct{}, 1)} }

// replaceCharge replaces one charge by another.
func (b *budget) replaceCharge(from, to charge) {
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

// room returns how many bytes on the wire may be requested now. empty reports that nothing is charged.
func (b *budget) room() (bytes int64, empty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.bound-b.used.reserved, 0) / tokenizingFactor, b.used.reserved == 0
}

// maxRoom returns the room of an empty budget.
func (b *budget) maxRoom() int64 { return b.bound / tokenizingFactor }

func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.held
}

// runWorker tokenizes chunks until ctx ends.
func (r *reader) runWorker(ctx context.Context) {
	e := r.log.workspaces.get()
	defer r.log.workspaces.put(e)
	for {
		select {
		case c := <-r.workQueue:
			r.tokenizeChunk(ctx, c, e)
		case <-ctx.Done():
			return
		}
	}
}

// traceTime returns the current time if documents are traced, else the zero time.
func (l *Log) traceTime() (now time.Time) {
	if l.tracer != nil {
		now = time.Now()
	}
	return now
}

// documentOf returns the document of a message.
func (r *reader) documentOf(m *message, e *workspace) (document.Document, *deadletter.Problem) {
	if m.stored != nil {
		e.replaced = 0
		return *m.stored, nil
	}
	m.parseHeaders(&e.headers)
	return r.log.stored.documentOf(m, e)
}

func (r *reader) tokenizeChunk(ctx context.Context, c *chunk, e *workspace) {
	defer close(c.done)
	c.Documents = make([]document.Document, len(c.messages))
	var empty, undecoded, replaced, tokens int64
	for i := range c.messages {
		m := &c.messages[i]
		began := r.log.traceTime()
		doc, failed := r.documentOf(m, e)
		if doc.Trace != nil {
			r.log.tracer.Fetched(doc.Trace, r.log.name, m.sequence, doc.Len(), m.time, began, time.Now())
		}
		if failed != nil {
			if r.log.letters != nil {
				r.log.letters.Put(ctx, m.toOriginal(), failed)
			}
			undecoded++
		} else if doc.Skip == plan.SkipEmpty {
			empty++
		}
		for i := range doc.Parts {
			if doc.Parts[i].Skip == plan.SkipEmpty {
				empty++
			}
		}
		if e.replaced > 0 && failed == nil {
			replaced += e.replaced
			r.warnReplaced.Do(func() {
				r.log.log.Warn("text is not UTF-8: replaced invalid bytes by U+FFFD (metric loaderd_replaced_bytes_total)",
					"stream", r.log.name,
					"first_sequence", m.sequence, "subject", m.subject, "bytes", e.replaced)
			})
		}
		tokens += int64(doc.Len())
		c.Documents[i] = doc
		cost := tokenizedCost(doc)
		r.budget.replaceCharge(fetchedCost(m), cost)
		c.cost.reserved += cost.reserved
		c.cost.held += cost.held
		m.block.Release() // documents share no memory with their messages
		*m = message{}
	}
	select {
	case r.spareBuffers <- c.messages[:0]:
	default:
	}
	c.messages = nil
	r.mu.Lock()
	r.status.Empty += empty
	r.status.Undecoded += undecoded
	r.status.Replaced += replaced
	r.status.Tokens += tokens
	r.mu.Unlock()
}
