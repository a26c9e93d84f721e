package doclog

import "time"

// pace keeps a reader off the end of a stream that grows fast on the server inside this process. That writes documents
// into blocks of 8 MiB, and holds one of which something is read before it is full for ten seconds longer, however many
// these are; one that is read later it lets go of at once. So near the end documents are asked for in portions with a
// pause behind each: a stream that grows faster gets ahead by a block, another is followed with the pause as delay.
type pace struct {
	total            int64 // bytes fetched
	documents, bytes int64 // the last ones fetched: by their mean those are judged that are still to come
	last             uint64
	grew             time.Time // when last, the stream's last sequence, was found to be another
}

const (
	// paceMost is asked for at once at the most: the server makes copies of all that is asked for, which wait for who
	// takes them.
	paceMost = 2 << 20
	// paceFrom is what a reader fetches without looking: a run's first step is to come soon, and three blocks are no
	// matter.
	paceFrom = 24 << 20
	// paceBehind is how far from the end nothing is of the block that is being written.
	paceBehind = 8 << 20
	// pacePause is how long a reader near the end waits before it asks for a portion. Streams that bring less in that time
	// are followed to the end.
	pacePause = 10 * time.Millisecond
	// paceStill is for how long a stream has not grown that is read to its end at once.
	paceStill = 100 * time.Millisecond
	// paceMean is of how many documents at least the mean is.
	paceMean = 1024
)

// took notes a document that was fetched.
func (p *pace) took(size int) {
	p.total += int64(size)
	p.documents++
	p.bytes += int64(size)
	if p.documents == 2*paceMean {
		p.documents, p.bytes = paceMean, p.bytes/2
	}
}

// next returns how much of a room to ask for, and how long to wait before, where so many documents are known to be left
// in a stream that ends at last.
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
