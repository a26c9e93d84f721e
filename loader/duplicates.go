package loader

import (
	"log/slog"
	"time"
)

// The log tells of dropped duplicates duplicatesFirst after the first, when there may be thousands, and then less and less often.
const (
	duplicatesFirst  = time.Second
	duplicatesAgain  = 10 * time.Second
	duplicatesSeldom = time.Hour
)

// duplicates tells the log of documents that were dropped because their ids had come before.
type duplicates struct {
	last  uint64    // sequence of the last dropped document
	count int64     // of documents that were dropped
	said  int64     // count when the log was last told
	next  time.Time // when it may be said again
	pause time.Duration
}

// saw notes how many documents have been dropped up to a document.
func (d *duplicates) saw(document uint64, count int64) {
	if count > d.count {
		d.last, d.count = document, count
	}
}

// replayed notes that the log was told of the present duplicates before a restart.
func (d *duplicates) replayed() { d.said = d.count }

// tell writes the number to the log when it has grown and it is time to.
func (d *duplicates) tell(now time.Time, dedupe int, log *slog.Logger) {
	switch {
	case d.count == d.said:
		return
	case d.next.IsZero():
		d.next = now.Add(duplicatesFirst)
	}
	if now.Before(d.next) {
		return
	}
	log.Warn("documents are dropped: their ids came before, among the last documents.dedupe ones. To train on them publish them with ids of their own, or none",
		"dropped", d.count, "since_last_said", d.count-d.said, "last_dropped_document", d.last, "documents.dedupe", dedupe)
	d.pause = min(max(2*d.pause, duplicatesAgain), duplicatesSeldom)
	d.said, d.next = d.count, now.Add(d.pause)
}
