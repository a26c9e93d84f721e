package session

import "slices"

// This file decides which waiting stream gets bytes of a budget. All functions are called with the budget's mu held.

// The lines of a share: for the first batch of a stream, and for further ones.
const (
	firstBatchQueue = iota
	readAheadQueue
	queueCount
)

func queueOf(h *account) int {
	if h.bytes > 0 {
		return readAheadQueue
	}
	return firstBatchQueue
}

// enqueue adds a stream to a line of its share, unless it is stalled. leave removes it.
func (b *budget) enqueue(w *memoryRequest) {
	w.account.pending = w
	if w.share = nil; w.account.stalled {
		return
	}
	w.share, w.queue = w.account.share, queueOf(w.account)
	if w.share.waitCount() == 0 {
		c := b.classOf(w.share)
		c.waitingShares = append(c.waitingShares, w.share)
	}
	w.share.queues[w.queue] = append(w.share.queues[w.queue], w)
	if w.queue == firstBatchQueue && w.account.writtenBatches > 0 {
		i := len(b.reserveQueue)
		for i > 0 && w.account.isEstablished() && !b.reserveQueue[i-1].account.isEstablished() {
			i--
		}
		b.reserveQueue = slices.Insert(b.reserveQueue, i, w)
	}
}

func (b *budget) dequeue(w *memoryRequest) {
	if w.account.pending != w {
		return
	}
	w.account.pending = nil
	if w.share == nil {
		return
	}
	if i := slices.Index(b.reserveQueue, w); i >= 0 {
		b.reserveQueue = slices.Delete(b.reserveQueue, i, i+1)
	}
	line := &w.share.queues[w.queue]
	i := slices.Index(*line, w)
	*line = slices.Delete(*line, i, i+1)
	if w.share.waitCount() == 0 {
		c := b.classOf(w.share)
		i := slices.Index(c.waitingShares, w.share)
		c.waitingShares = slices.Delete(c.waitingShares, i, i+1)
	}
}

func (s *share) waitCount() int {
	return len(s.queues[firstBatchQueue]) + len(s.queues[readAheadQueue])
}

// grantRequests grants waiting streams their bytes, as far as bytes are available.
func (b *budget) grantRequests() {
	if w := b.grantInTurn(); w != nil && w.bytes > b.commonBytes() {
		return // it also needs the bytes of the reserve
	}
	for i := 0; i < len(b.reserveQueue); {
		w := b.reserveQueue[i]
		if w.share.reserved > 0 || b.reserved+w.bytes > b.reserveLimit(w) || b.held+w.bytes > b.available() {
			i++
			continue
		}
		w.reserved = true
		b.grantRequest(w)
	}
}

// grantInTurn grants waiting streams their bytes in turn, without the reserve. It returns the next stream if the
// budget has too few bytes for it, otherwise nil.
func (b *budget) grantInTurn() *memoryRequest {
	for again := true; again; {
		again = false
		for _, turns := range []*[]*share{&b.unproven.waitingShares, &b.proven.waitingShares} {
			i, w := b.nextInTurn(*turns)
			if w == nil || b.isUnprovenFull(w) && !b.isExempt(w) {
				continue
			}
			if b.isFull(w) {
				return w
			}
			s := w.share
			*turns = append(slices.Delete(*turns, i, i+1), s) // move it to the end
			b.grantRequest(w)
			again = true
		}
	}
	return nil
}

// grantRequest grants a stream the bytes that it waits for.
func (b *budget) grantRequest(w *memoryRequest) {
	b.dequeue(w)
	b.charge(w.account, w.bytes, w.reserved)
	close(w.ready)
}

// nextInTurn returns the first stream in turn whose share may have its bytes.
func (b *budget) nextInTurn(turns []*share) (int, *memoryRequest) {
	for i, s := range turns {
		for _, line := range s.queues {
			if len(line) > 0 && (b.isExempt(line[0]) || !b.isShareFull(line[0])) {
				return i, line[0]
			}
		}
	}
	return 0, nil
}

// commonBytes returns the bytes available for batches, without the reserve.
func (b *budget) commonBytes() int64 { return b.available() / 8 * 7 }

// reserveBytes returns the bytes that only streams whose readers read may use.
func (b *budget) reserveBytes() int64 { return b.available() - b.commonBytes() }

// reserveLimit returns how many bytes of the reserve may be in use after a grant to a stream.
func (b *budget) reserveLimit(w *memoryRequest) int64 {
	if w.account.isEstablished() {
		return b.reserveBytes()
	}
	return b.reserveBytes() / 2
}

// isEstablished reports whether the reader of a stream has taken many batches.
func (h *account) isEstablished() bool { return h.writtenBatches >= establishedBatches }

// isFull reports whether the budget has too few bytes for a stream.
func (b *budget) isFull(w *memoryRequest) bool {
	return b.held > 0 && b.held-b.reserved+w.bytes > b.commonBytes()
}

// isExempt reports whether a batch is the first one of its share and so exempt from the limits of identity and class.
func (b *budget) isExempt(w *memoryRequest) bool {
	return w.queue == firstBatchQueue && w.share.held == 0 && b.held-b.reserved+w.bytes <= b.available()/16*13
}

// isUnprovenFull reports whether the class of unproven streams has reached its limit.
func (b *budget) isUnprovenFull(w *memoryRequest) bool {
	return !w.share.proven && b.unproven.held > 0 && b.unproven.held+w.bytes > b.unprovenLimit()
}

func (b *budget) unprovenLimit() int64 { return b.available() / 8 * 5 }

// isShareFull reports whether a share, or its identity, has reached its limit.
func (b *budget) isShareFull(w *memoryRequest) bool {
	s, room := w.share, b.identityRoom(w)
	if w.queue == readAheadQueue {
		room /= 2
	}
	return s.held > 0 && s.held+w.bytes > room || b.isIdentityFull(w)
}

// isIdentityFull reports whether an identity has reached its limit.
func (b *budget) isIdentityFull(w *memoryRequest) bool {
	return b.classOf(w.share).byIdentity[w.share.identity] > 0 && b.identityRoom(w) < 0
}

// identityRoom returns what an identity could still take after a grant to its stream.
func (b *budget) identityRoom(w *memoryRequest) int64 {
	leaves := b.commonBytes() - (b.held - b.reserved)
	if !w.share.proven {
		leaves = min(leaves, b.unprovenLimit()-b.unproven.held)
	}
	return maxHeldRatio*(leaves-w.bytes) - b.classOf(w.share).byIdentity[w.share.identity] - w.bytes
}
