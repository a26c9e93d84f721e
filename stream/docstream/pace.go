package docstream

import "time"

// pace keeps a reader away from the end of a stream that grows fast on the embedded server. The server writes
// documents into blocks of 8 MiB. If a block is read before it is full, the server holds it for ten more seconds,
// however many such blocks exist. If a block is first read later, the server releases it immediately. Near the end
// the reader therefore requests portions with a pause before each. A stream that grows faster gets ahead by a block.
// A slower stream is followed with the pause as delay.
type pace struct {
	total            int64 // bytes fetched
	documents, bytes int64 // the last ones fetched; their mean size estimates that of the remaining ones
	last             uint64
	grew             time.Time // when last, the stream's last sequence, changed
}

const (
	// paceMost is the largest request in bytes. The server copies everything that is requested, and the copies wait
	// until the reader takes them.
	paceMost = 2 << 20
	// paceFrom is how many bytes a reader fetches without pacing. A run's first step is wanted soon, and three blocks
	// are harmless.
	paceFrom = 24 << 20
	// paceBehind is the distance from the end, in bytes, beyond which no document is in the block that is being written.
	paceBehind = 8 << 20
	// pacePause is how long a reader near the end waits before it requests a portion. Streams that grow by less in that
	// time are followed to the end.
	pacePause = 10 * time.Millisecond
	// paceStill is how long a stream must not have grown before it is read to its end without pauses.
	paceStill = 100 * time.Millisecond
	// paceMean is the minimum number of documents in the mean.
	paceMean = 1024
)

// took records a document that was fetched.
func (p *pace) took(size int) {
	p.total += int64(size)
	p.documents++
	p.bytes += int64(size)
	if p.documents == 2*paceMean {
		p.documents, p.bytes = paceMean, p.bytes/2
	}
}

// next returns how much of room, in bytes, to request, and how long to wait before. left is the number of documents
// that remain in the stream, whose last sequence is last.
func (p *pace) next(room int64, left, last uint64, now time.Time) (bytes int64, wait time.Duration) {
	room = min(room, paceMost)
	if p.total < paceFrom {
		return room, 0
	}
	if last != p.last {
		p.last, p.grew = last, now
	}
	behind := int64(left) * p.bytes / p.documents
	switch {
	case behind >= paceBehind+portion:
		return min(room, behind-paceBehind), 0
	case now.Sub(p.grew) > paceStill:
		return min(room, max(behind, portion)), 0
	}
	return min(room, portion), pacePause
}
