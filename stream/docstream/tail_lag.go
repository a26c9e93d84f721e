package docstream

import "time"

// tailLag keeps a reader away from the end of a stream that grows fast on the embedded server. The server writes
// documents into blocks of 8 MiB. If a block is read before it is full, the server holds it for ten more seconds,
// however many such blocks exist. If a block is first read later, the server releases it immediately. Near the end
// the reader therefore requests portions with a pause before each. A stream that grows faster gets ahead by a block.
// A slower stream is followed with the pause as delay.
type tailLag struct {
	total            int64 // bytes fetched
	documents, bytes int64 // the last ones fetched; their mean size estimates that of the remaining ones
	last             uint64
	grewAt           time.Time // when last, the stream's last sequence, changed
}

const (
	// maxTailRequest is the largest request in bytes. The server copies everything that is requested, and the copies wait
	// until the reader takes them.
	maxTailRequest = 2 << 20
	// unpacedBytes is how many bytes a reader fetches without pacing. A run's first step is wanted soon, and three blocks
	// are harmless.
	unpacedBytes = 24 << 20
	// tailDistance is the distance from the end, in bytes, beyond which no document is in the block that is being written.
	tailDistance = 8 << 20
	// tailPause is how long a reader near the end waits before it requests a portion. Streams that grow by less in that
	// time are followed to the end.
	tailPause = 10 * time.Millisecond
	// tailQuietTime is how long a stream must not have grown before it is read to its end without pauses.
	tailQuietTime = 100 * time.Millisecond
	// minMeanDocuments is the minimum number of documents in the mean.
	minMeanDocuments = 1024
)

// addFetched records a document that was fetched.
func (p *tailLag) addFetched(size int) {
	p.total += int64(size)
	p.documents++
	p.bytes += int64(size)
	if p.documents == 2*minMeanDocuments {
		p.documents, p.bytes = minMeanDocuments, p.bytes/2
	}
}

// nextRequest returns how much of room, in bytes, to request, and how long to wait before. left is the number of
// documents that remain in the stream, whose last sequence is last.
func (p *tailLag) nextRequest(room int64, left, last uint64, now time.Time) (bytes int64, wait time.Duration) {
	room = min(room, maxTailRequest)
	if p.total < unpacedBytes {
		return room, 0
	}
	if last != p.last {
		p.last, p.grewAt = last, now
	}
	behind := int64(left) * p.bytes / p.documents
	switch {
	case behind >= tailDistance+minRequestBytes:
		return min(room, behind-tailDistance), 0
	case now.Sub(p.grewAt) > tailQuietTime:
		return min(room, max(behind, minRequestBytes)), 0
	}
	return min(room, minRequestBytes), tailPause
}
