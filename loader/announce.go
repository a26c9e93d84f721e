package loader

import (
	"context"
	"errors"
	"time"
)

// tellWithin bounds how long Seal waits until Floors has been told where the run ends. The seal is in the plan log before that.
const tellWithin = 2 * time.Second

// announcement carries the last document of a sealed run from the leader's loop to Floors, so that producers learn where the run ends.
type announcement struct {
	at   chan uint64   // holds the sequence of that document once the seal is decided
	told chan struct{} // closed when Floors has it
}

func newAnnouncement() announcement {
	return announcement{at: make(chan uint64, 1), told: make(chan struct{})}
}

// decided notes that the run ends behind document at. Only the first call counts: a run ends once.
func (a announcement) decided(at uint64) {
	select {
	case a.at <- at:
	default:
	}
}

// announce tells producers that the run reads what they publish, and Floors and them where it ends, once that is decided.
func (l *leader) announce(ctx context.Context) error {
	if l.edges.Floors == nil {
		close(l.news.told)
		return nil
	}
	if err := l.edges.Floors.Tell(ctx); err != nil && ctx.Err() == nil {
		l.log.Warn("those who publish to the document stream are not told that this run reads it", "error", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case at := <-l.news.at:
		err := l.edges.Floors.Ends(ctx, l.term, at)
		if err == nil {
			err = l.edges.Floors.Tell(ctx)
		}
		if errors.Is(err, ErrDeposed) {
			return l.deposed(err)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("those who publish to the document stream are not told that this run does not read what comes now", "last_document", at, "error", err)
		}
		close(l.news.told)
	}
	return nil
}

// announced waits until Floors has been told, for tellWithin at most.
func (l *leader) announced(ctx context.Context) {
	limit := time.NewTimer(tellWithin)
	defer limit.Stop()
	select {
	case <-l.news.told:
	case <-limit.C:
	case <-ctx.Done():
	}
}
