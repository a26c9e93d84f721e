package loader

import (
	"context"
	"time"
)

// tellWithin bounds how long Seal waits until producers can know of it. The seal itself stands by then.
const tellWithin = 2 * time.Second

// announcement is the news of where a run ends, for those who publish documents that it will not read.
type announcement struct {
	at   chan uint64   // holds the sequence once it is decided
	told chan struct{} // closed when Floors has it
}

func newAnnouncement() announcement {
	return announcement{at: make(chan uint64, 1), told: make(chan struct{})}
}

// decided takes note that the run ends behind a document. Only the first one counts: a run ends once.
func (a announcement) decided(at uint64) {
	select {
	case a.at <- at:
	default:
	}
}

// announce tells Floors where the run ends, once that is decided.
func (l *leader) announce(ctx context.Context) error {
	if l.edges.Floors == nil {
		close(l.news.told)
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case at := <-l.news.at:
		if err := l.edges.Floors.Ends(ctx, at); err != nil && ctx.Err() == nil {
			l.log.Warn("those who publish to the document stream are not told that this run does not read what comes now", "last_document", at, "error", err)
		}
		close(l.news.told)
	}
	return nil
}

// announced waits until Floors has been told, within bounded time.
func (l *leader) announced(ctx context.Context) {
	limit := time.NewTimer(tellWithin)
	defer limit.Stop()
	select {
	case <-l.news.told:
	case <-limit.C:
	case <-ctx.Done():
	}
}
