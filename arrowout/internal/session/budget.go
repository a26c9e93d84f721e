package session

import (
	"context"
	"sync"
	"time"

	"loaderd/arrowout/internal/refusal"
)

// provenBatches is how many batches a stream's reader must take before it counts as reading. Sockets and windows take
// fewer batches of a reader that never reads, unless its batches are small.
const provenBatches = 4

// establishedBatches is how many batches a stream's reader must take before it may use the whole reserve.
const establishedBatches = 64

// maxHeldRatio is the maximum ratio between what an identity holds and what it leaves free.
const maxHeldRatio = 3

// streamBytes is the cost of an open stream in addition to its batches: goroutines, the state of gRPC and the run,
// and unread data that its client may send.
const streamBytes = 96 << 10

// budget bounds the bytes of record batches that are being assembled, or that gRPC has not written yet, over all
// streams.
//
//  0. Open streams cost costPerStream each, at most three quarters of size. The rest is available for batches.
//  1. All batches together hold at most that rest. A larger batch is granted when no other batch is held. An eighth of
//     the rest is a reserve (6).
//  2. A share is what one identity holds through one connection. An identity gets its next batch only if it then holds
//     at most three times what is left free for other identities. One connection may hold at most what the identity
//     may still take through its other connections. So streams that never read always leave room: a quarter of the
//     budget for another identity, and a separate part for another connection of the identity. A stream that has a
//     batch gets another one only if its share may take twice as much. So streams that read ahead do not keep other
//     streams from their first batch.
//  3. Streams that have not proved that they read are a separate class, which has five eighths of the budget. So any
//     number of connections leaves the rest to streams that read. The first batch of a share that holds nothing is
//     granted beyond the limits of identity and class, up to 13/16 of the budget.
//  4. Waiting shares take turns, and within a share streams are served in the order of their requests. A stream whose
//     share may have its batch is not overtaken, except from the reserve.
//  5. A stalled stream gets no further batch and does not wait in turn. Its reader has had a batch for a second and has
//     taken nothing of it.
//  6. If a stream's reader has taken a batch and the stream holds nothing, its next batch may use the reserve. This is
//     independent of what its identity and connection hold, and applies if it cannot have the batch otherwise. A share
//     has one batch of the reserve at a time. Half of the reserve is only for established streams, whose readers have
//     taken many batches. So a reader that reads continues, however many other readers have stopped.
//
// A stalled stream keeps what it holds; slowness (slow_reader_reaper.go) handles it.
type budget struct {
	costPerStream int64
	mu            *sync.Mutex // the registry's mutex; it guards all fields below, shares, holds and charges

	size, held       int64
	reserved         int64 // part of held that belongs to the reserve
	unproven, proven class // streams that have not proved that they read, and streams that have
	shares           map[shareKey]*share
	accounts         map[*account]struct{}
	// Waiting streams that may use the reserve: established ones first, then in the order of their requests.
	reserveQueue []*memoryRequest
}

// class is what the streams of one class hold.
type class struct {
	held          int64
	byIdentity    map[string]int64 // by identity
	waitingShares []*share         // waiting shares, the next one first
}

// shareKey identifies a share by identity, connection and whether its streams have proved that they read.
type shareKey struct {
	identity, address string
	proven            bool
}

type share struct {
	shareKey
	held     int64
	reserved int64 // part of held that belongs to the reserve
	streams  int
	queues   [queueCount][]*memoryRequest
}

// account is what one stream holds of a budget.
type account struct {
	budget     *budget
	connection Connection // nil if its end is not reported

	// Guarded by the budget's mu:
	endStream      func(error) // ends the stream; nil when the budget has forgotten it
	share          *share
	bytes          int64
	inFlight       int64          // part of bytes that gRPC has
	reserved       int64          // part of bytes that belongs to the reserve
	lastProgress   time.Time      // when gRPC last wrote a part of out, or out became positive
	writtenBatches int            // number of batches that were written completely
	pending        *memoryRequest // nil while it does not wait
	closed         bool           // no further batch is assembled for it
	connectionLost bool           // its connection has ended, and what gRPC had of it is released
	reportedSlow   bool           // its reader was reported as slow
	// stalled reports that nothing of out was written for stallAfter.
	stalled bool
}

type memoryRequest struct {
	account  *account
	bytes    int64
	since    time.Time
	ready    chan struct{} // closed when the bytes are granted
	reserved bool          // granted from the reserve
	share    *share        // the share in whose line it waits; nil while its stream is stalled
	queue    int
}

func newBudget(mu *sync.Mutex, size, perStream int64) *budget {
	return &budget{
		mu: mu, size: size, costPerStream: perStream, shares: map[shareKey]*share{}, accounts: map[*account]struct{}{},
		unproven: class{byIdentity: map[string]int64{}}, proven: class{byIdentity: map[string]int64{}},
	}
}

// openAccount adds a stream of an identity from an address. end ends the stream. It returns an error if the open
// streams already cost too much. The caller holds mu.
func (b *budget) openAccount(who, address string, from Connection, end func(error)) (*account, error) {
	h := &account{budget: b, connection: from, endStream: end}
	if b.streamsCost() > b.size/4*3-b.costPerStream {
		return nil, refusal.Limited("open streams, by their memory (flight.send_bytes)", len(b.accounts))
	}
	h.connectionLost = from != nil && from.Closed()
	b.joinShare(h, shareKey{identity: who, address: address})
	b.accounts[h] = struct{}{}
	return h, nil
}

// close records that no further batch is assembled for a stream. What gRPC has of it remains charged until it is
// written. The caller holds the budget's mu.
func (h *account) close() {
	h.closed = true
	h.budget.removeClosed(h)
}

// releaseConnection releases what the streams of an ended connection hold, because gRPC does not report the release of
// its buffers.
func (b *budget) releaseConnection(c Connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h := range b.accounts {
		if h.connection == c {
			if h.pending != nil { // its call ends
				b.dequeue(h.pending)
			}
			b.charge(h, -h.reserved, true)
			b.charge(h, -h.bytes, false)
			h.inFlight, h.stalled, h.connectionLost = 0, false, true
			b.removeClosed(h)
		}
	}
	b.grantRequests()
}

// acquire waits until a stream may hold that many additional bytes, and returns their charge. If ctx ends first, it
// returns the cause.
func (h *account) acquire(ctx context.Context, bytes int64) (*Charge, error) {
	b := h.budget
	b.mu.Lock()
	if h.connectionLost {
		b.mu.Unlock()
		return nil, context.Canceled
	}
	w := &memoryRequest{account: h, bytes: bytes, since: time.Now(), ready: make(chan struct{})}
	b.enqueue(w)
	b.grantRequests()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return &Charge{account: h, bytes: bytes, reserved: w.reserved}, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // granted at the same moment
		b.charge(h, -bytes, w.reserved)
	default:
		b.dequeue(w)
	}
	b.grantRequests()
	return nil, context.Cause(ctx)
}

// resize changes the size. Bytes held beyond the new size are released gradually.
func (b *budget) resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = size
	b.grantRequests()
}

// heldBytes returns how many bytes are held.
func (b *budget) heldBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// All functions below are called with mu held.

// streamsCost returns the cost of open streams in addition to their batches.
func (b *budget) streamsCost() int64 { return int64(len(b.accounts)) * b.costPerStream }

// available returns the bytes available for batches.
func (b *budget) available() int64 { return max(b.size-b.streamsCost(), b.size/4) }

// charge adds bytes to what a stream holds; spare marks bytes of the reserve.
func (b *budget) charge(h *account, bytes int64, spare bool) {
	if h.connectionLost {
		return
	}
	h.bytes += bytes
	b.held += bytes
	if spare {
		h.reserved += bytes
		h.share.reserved += bytes
		b.reserved += bytes
	}
	b.addToShare(h.share, bytes)
	if w := h.pending; w != nil && w.share != nil && w.queue != queueOf(h) { // the line depends on h.bytes
		b.dequeue(w)
		b.enqueue(w)
	}
}

// recordProgress records that gRPC has received a batch of a stream, or written a part of it.
func (b *budget) recordProgress(h *account) {
	h.lastProgress = time.Now()
	h.stalled = false
	if w := h.pending; w != nil && w.share == nil {
		b.enqueue(w)
	}
}

// markStalled records that the reader of a stream takes nothing.
func (b *budget) markStalled(h *account) {
	h.stalled = true
	if w := h.pending; w != nil {
		b.dequeue(w)
		b.enqueue(w)
	}
}

// addToShare adds bytes to a share, its identity and its class.
func (b *budget) addToShare(s *share, bytes int64) {
	c := b.classOf(s)
	s.held += bytes
	c.held += bytes
	if c.byIdentity[s.identity] += bytes; c.byIdentity[s.identity] == 0 {
		delete(c.byIdentity, s.identity)
	}
}

func (b *budget) classOf(s *share) *class {
	if s.proven {
		return &b.proven
	}
	return &b.unproven
}

// markProven moves a stream to the share of streams that have proved that they read.
func (b *budget) markProven(h *account) {
	w := h.pending
	if w != nil {
		b.dequeue(w)
	}
	key := h.share.shareKey
	key.proven = true
	b.addToShare(h.share, -h.bytes)
	h.share.reserved -= h.reserved
	b.leaveShare(h)
	b.joinShare(h, key)
	b.addToShare(h.share, h.bytes)
	h.share.reserved += h.reserved
	if w != nil {
		b.enqueue(w)
	}
}

func (b *budget) joinShare(h *account, key shareKey) {
	s := b.shares[key]
	if s == nil {
		s = &share{shareKey: key}
		b.shares[key] = s
	}
	s.streams++
	h.share = s
}

func (b *budget) leaveShare(h *account) {
	if h.share.streams--; h.share.streams == 0 {
		delete(b.shares, h.share.shareKey)
	}
}

// removeClosed removes a stream that has ended and holds nothing. gRPC reuses its buffer structs for other connections,
// and an idle connection may retain one with its charge. Such a charge must not retain the stream, and so the memory of
// the lost connection.
func (b *budget) removeClosed(h *account) {
	if _, known := b.accounts[h]; known && h.closed && (h.bytes == 0 || h.connectionLost) {
		delete(b.accounts, h)
		b.leaveShare(h)
		h.endStream = nil
	}
}
