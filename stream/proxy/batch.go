package proxy

import (
	"sync"
	"time"
)

// Limits on uncommitted atomic batches of producers. The server stores them outside the stream and its bound: on
// disk, or in memory if the stream has several replicas.
const (
	StagedBatch   = 64 << 20  // bytes per batch
	StagedBytes   = 256 << 20 // bytes of all batches; the members of a cluster share them
	StagedBatches = 2         // per connection
)

// batchIdleTimeout is how long a batch counts after its last message. The server drops it after ten seconds.
const batchIdleTimeout = 15 * time.Second

// batchID identifies a batch: ids are unique per stream.
type batchID struct{ stream, id string }

// batch is an uncommitted batch.
type batch struct {
	id        batchID
	owner     *producer // nil once its connection is closed
	subject   string    // of its first message
	bytes     int64
	documents int
	number    uint64 // its order among all batches
	last      time.Time
	refused   *refusal // applies to the messages that follow
}

// batches counts the messages that producers have staged.
type batches struct {
	limit int64

	mu         sync.Mutex
	open       map[batchID]*batch
	lastNumber uint64
	bytes      int64
}

func newBatches(limit int64) *batches { return &batches{limit: limit, open: map[batchID]*batch{}} }

// batchMessage is a message of a batch.
type batchMessage struct {
	subject string
	size    int64
	commit  bool
	refused *refusal // why the batch is refused for this message; nil if it is not
}

// stage counts a message of a batch. It returns how many documents the batch has, the batches that the server must
// abandon, and the refusal if the message must not be forwarded. At the limit on all batches the oldest ones are
// abandoned; those of a publisher that commits are recent.
func (b *batches) stage(owner *producer, id batchID, m batchMessage,
	now time.Time) (documents int, abandoned []*batch, refused *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.open[id]
	if x == nil {
		if m.commit {
			return 1, nil, m.refused // it is stored immediately, or refused because messages are missing
		}
		b.expire(now)
		for b.countOwned(owner) >= StagedBatches {
			abandoned = append(abandoned, b.removeOldest(owner))
		}
		b.lastNumber++
		x = &batch{id: id, owner: owner, subject: m.subject, number: b.lastNumber}
		b.open[id] = x
	}
	x.last = now
	x.documents++
	if m.refused == nil && x.bytes+m.size > StagedBatch {
		m.refused = newRefusal(codeBatchTooLarge, "batch has more than %d bytes, the most that producers may publish in one",
			StagedBatch)
	}
	switch {
	case x.refused != nil:
	case m.refused != nil:
		x.refused = m.refused
		abandoned = append(abandoned, x)
		b.bytes -= x.bytes
		x.bytes = 0
	default:
		x.bytes += m.size
		b.bytes += m.size
	}
	if m.commit {
		b.remove(x)
	}
	for b.bytes > b.limit {
		abandoned = append(abandoned, b.removeOldest(nil))
	}
	return x.documents, abandoned, x.refused
}

// releaseOwner returns the batches of a closed connection, which the server must abandon. They still count for a while,
// because the server may read the connection's last messages afterwards.
func (b *batches) releaseOwner(owner *producer) (left []*batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.open {
		if x.owner == owner {
			x.owner = nil
			left = append(left, x)
		}
	}
	return left
}

// expire removes batches that the server has dropped. The caller holds b.mu.
func (b *batches) expire(now time.Time) {
	for _, x := range b.open {
		if now.Sub(x.last) > batchIdleTimeout {
			b.remove(x)
		}
	}
}

// removeOldest removes the oldest batch of a connection, or of all connections for nil, and returns it. At least one
// must exist. The caller holds b.mu.
func (b *batches) removeOldest(owner *producer) (oldest *batch) {
	for _, x := range b.open {
		if (owner == nil || x.owner == owner) && (oldest == nil || x.number < oldest.number) {
			oldest = x
		}
	}
	b.remove(oldest)
	return oldest
}

// countOwned returns the number of batches of a connection. The caller holds b.mu.
func (b *batches) countOwned(owner *producer) (n int) {
	for _, x := range b.open {
		if x.owner == owner {
			n++
		}
	}
	return n
}

// remove removes a batch. The caller holds b.mu.
func (b *batches) remove(x *batch) {
	delete(b.open, x.id)
	b.bytes -= x.bytes
}
