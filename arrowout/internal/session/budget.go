package session

import (
	"context"
	"sync"
	"time"

	"loaderd/arrowout/internal/refusal"
)

// provenAfter is how many batches a stream's reader has to have taken before it counts as one that reads: what sockets
// and windows take of one that never does is less, unless its batches are small.
const provenAfter = 4

// establishedAfter is how many batches a stream's reader has to have taken before it may have the whole reserve.
const establishedAfter = 64

// othersShare is how many times as much as it leaves to others an identity may hold.
const othersShare = 3

// streamBytes is what an open stream costs in addition to its batches: goroutines, what gRPC and the run keep of it,
// and what its client may send and leave unread.
const streamBytes = 96 << 10

// budget bounds the bytes of record batches that are being assembled, or that gRPC has not written yet, over all
// streams.
//
//  0. Open streams cost perStream each, three quarters of size at most; the rest is for batches.
//  1. All batches take at most that rest together, but for a batch that is larger: it is held when nothing else is. An
//     eighth of it is a reserve (6).
//  2. A share is what one identity holds by one connection. An identity takes its next batch only while it then holds
//     no more than three times what
//     is left free for others, and by one connection no more than what it may still take by others. So however much is
//     asked for by streams that
//     never read, whoever else comes finds room: another identity a quarter of the budget, another connection of that
//     identity a part of its own.
//     A stream that has a batch takes another one only where its share may take twice as much: streams that read ahead
//     do not keep others from their
//     first batch.
//  3. Streams that have not shown that they read are a class of their own, which has five eighths of the budget: what
//     comes from any number of
//     connections leaves the rest to those that read. The first batch of a share that holds nothing is granted beyond
//     the limits of identity and class,
//     up to 13/16 of the budget.
//  4. Where several shares wait they take turns, and within one the streams come in the order in which they asked. A
//     stream whose share may have its
//     batch is not overtaken, but for the reserve.
//  5. A stream that is stalled takes no further batch, and does not wait in turn: its reader has had a batch for a
//     second and taken nothing of it.
//  6. A stream whose reader has taken a batch and holds nothing has its next one from the reserve, where it cannot have
//     it otherwise, whatever its
//     identity and connection hold. A share has one batch of the reserve at a time, and half of the reserve is for
//     established streams, whose readers have
//     taken many batches. A reader that reads continues, however many others have stopped.
//
// A stalled stream keeps what it holds: what to do about that is the caller's (slow.go).
type budget struct {
	perStream int64
	mu        *sync.Mutex // of the registry; it guards all below, shares, holds and charges

	size, held    int64
	spare         int64 // of what is held, that of the reserve
	fresh, proven class // of streams: those that have not shown that they read, and those that have
	shares        map[shareKey]*share
	holds         map[*hold]struct{}
	// of those that wait, the streams that may have the reserve: established ones first, and in the order in which they
	// asked
	readers []*wait
}

// class is what streams of one kind hold.
type class struct {
	held  int64
	of    map[string]int64 // by identity
	turns []*share         // in which streams wait, the next one first
}

// shareKey is whose share it is, by which connection, and whether it is that of the streams that have shown that they
// read.
type shareKey struct {
	who, from string
	proven    bool
}

type share struct {
	shareKey
	held    int64
	spare   int64 // of these, those of the reserve
	streams int
	waits   [lines][]*wait
}

// hold is what one stream holds of a budget.
type hold struct {
	budget *budget
	from   Connection // nil where its end is not reported

	// Under the budget's mu:
	end   func(error) // ends the stream; nil when the budget has forgotten it
	share *share
	bytes int64
	out   int64     // of these, what gRPC has
	spare int64     // of these, those of the reserve
	moved time.Time // when gRPC last wrote some of out, or came to have any
	taken int       // batches that were written whole
	wait  *wait     // nil while it does not wait
	ended bool      // nothing more is assembled for it
	gone  bool      // so is its connection, and what gRPC had of it
	told  bool      // that it is slow
	// stalled says that nothing of out was written for stallAfter.
	stalled bool
}

type wait struct {
	hold  *hold
	bytes int64
	since time.Time
	ready chan struct{} // closed when it has the bytes
	spare bool          // it has them of the reserve
	in    *share        // in a line of which it stands; nil while its stream is stalled
	line  int
}

func newBudget(mu *sync.Mutex, size, perStream int64) *budget {
	return &budget{
		mu: mu, size: size, perStream: perStream, shares: map[shareKey]*share{}, holds: map[*hold]struct{}{},
		fresh: class{of: map[string]int64{}}, proven: class{of: map[string]int64{}},
	}
}

// open makes the hold of a stream of an identity, at an address. end ends the stream. It is an error where streams cost
// too much already. The caller holds mu.
func (b *budget) open(who, address string, from Connection, end func(error)) (*hold, error) {
	h := &hold{budget: b, from: from, end: end}
	if b.streamsCost() > b.size/4*3-b.perStream {
		return nil, refusal.Limited("open streams, by the memory that they take (flight.send_bytes)", len(b.holds))
	}
	h.gone = from != nil && from.Closed()
	b.enter(h, shareKey{who: who, from: address})
	b.holds[h] = struct{}{}
	return h, nil
}

// close says that nothing more is assembled for a stream. It holds what gRPC has of it until that is written. The
// caller holds the budget's mu.
func (h *hold) close() {
	h.ended = true
	h.budget.forget(h)
}

// lost gives back what streams of a connection hold that has ended: gRPC does not tell of what it had.
func (b *budget) lost(c Connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h := range b.holds {
		if h.from == c {
			if h.wait != nil { // its call ends
				b.leave(h.wait)
			}
			b.charge(h, -h.spare, true)
			b.charge(h, -h.bytes, false)
			h.out, h.stalled, h.gone = 0, false, true
			b.forget(h)
		}
	}
	b.grant()
}

// take waits until a stream may hold so many bytes more, and returns what gives them back. It returns the cause when
// ctx ends before.
func (h *hold) take(ctx context.Context, bytes int64) (*Charge, error) {
	b := h.budget
	b.mu.Lock()
	if h.gone {
		b.mu.Unlock()
		return nil, context.Canceled
	}
	w := &wait{hold: h, bytes: bytes, since: time.Now(), ready: make(chan struct{})}
	b.join(w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return &Charge{hold: h, bytes: bytes, spare: w.spare}, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // at the same moment
		b.charge(h, -bytes, w.spare)
	default:
		b.leave(w)
	}
	b.grant()
	return nil, context.Cause(ctx)
}

// resize changes how much there is. What is held beyond it is given back by and by.
func (b *budget) resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = size
	b.grant()
}

// inUse is how many bytes are held.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Everything below is called with mu held.

// streamsCost is what open streams cost in addition to their batches.
func (b *budget) streamsCost() int64 { return int64(len(b.holds)) * b.perStream }

// available is what batches may take.
func (b *budget) available() int64 { return max(b.size-b.streamsCost(), b.size/4) }

// charge adds to what a stream holds, of the reserve or not.
func (b *budget) charge(h *hold, bytes int64, spare bool) {
	if h.gone {
		return
	}
	h.bytes += bytes
	b.held += bytes
	if spare {
		h.spare += bytes
		h.share.spare += bytes
		b.spare += bytes
	}
	b.count(h.share, bytes)
	if w := h.wait; w != nil && w.in != nil && w.line != lineOf(h) { // what it waits for would be its first batch now
		b.leave(w)
		b.join(w)
	}
}

// move notes that gRPC has come to have a batch of a stream, or written some.
func (b *budget) move(h *hold) {
	h.moved = time.Now()
	h.stalled = false
	if w := h.wait; w != nil && w.in == nil {
		b.join(w)
	}
}

// stall notes that the reader of a stream takes nothing.
func (b *budget) stall(h *hold) {
	h.stalled = true
	if w := h.wait; w != nil {
		b.leave(w)
		b.join(w)
	}
}

// count adds to what a share, its identity and its class hold.
func (b *budget) count(s *share, bytes int64) {
	c := b.class(s)
	s.held += bytes
	c.held += bytes
	if c.of[s.who] += bytes; c.of[s.who] == 0 {
		delete(c.of, s.who)
	}
}

func (b *budget) class(s *share) *class {
	if s.proven {
		return &b.proven
	}
	return &b.fresh
}

// prove moves a stream to the share of those that read.
func (b *budget) prove(h *hold) {
	w := h.wait
	if w != nil {
		b.leave(w)
	}
	key := h.share.shareKey
	key.proven = true
	b.count(h.share, -h.bytes)
	h.share.spare -= h.spare
	b.exit(h)
	b.enter(h, key)
	b.count(h.share, h.bytes)
	h.share.spare += h.spare
	if w != nil {
		b.join(w)
	}
}

func (b *budget) enter(h *hold, key shareKey) {
	s := b.shares[key]
	if s == nil {
		s = &share{shareKey: key}
		b.shares[key] = s
	}
	s.streams++
	h.share = s
}

func (b *budget) exit(h *hold) {
	if h.share.streams--; h.share.streams == 0 {
		delete(b.shares, h.share.shareKey)
	}
}

// forget drops a stream that has ended and holds nothing. gRPC uses the structs of its buffers again, for other
// connections, and may keep one with a charge for as long as a connection is idle: such a charge must not keep the
// stream, and with it the lost connection's memory.
func (b *budget) forget(h *hold) {
	if _, known := b.holds[h]; known && h.ended && (h.bytes == 0 || h.gone) {
		delete(b.holds, h)
		b.exit(h)
		h.end = nil
	}
}
