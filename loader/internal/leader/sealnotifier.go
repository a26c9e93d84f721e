package leader

import (
	"context"
	"errors"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/mixture"
)

// tellWithin bounds how long Seal waits until LowWatermarks has where the run ends. The seal is in the plan log before that.
const tellWithin = 2 * time.Second

// sealNotifier carries the last documents of sealed streams from the leader's loop to LowWatermarks, so that producers learn where the run ends.
type sealNotifier struct {
	at   chan ending   // holds a stream's last document once its seal is decided
	told chan struct{} // closed when LowWatermarks has the first
}

// ending is the last document that the run reads of a source.
type ending struct {
	source int
	at     uint64
}

func newSealNotifier() sealNotifier {
	return sealNotifier{at: make(chan ending, mixture.MaxSources), told: make(chan struct{})}
}

// decided notes that the run reads no document of a source behind at. Only the first call for it counts: it ends once.
func (a sealNotifier) decided(source int, at uint64) {
	select {
	case a.at <- ending{source, at}:
	default:
	}
}

// announce reports to producers that the run reads what they publish and, once that is decided, to LowWatermarks and them where it ends.
func (l *Leader) announce(ctx context.Context) error {
	all, err := l.Streams.All(ctx, l.header)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.LowWatermarks == nil {
			continue
		}
		if err := x.LowWatermarks.Tell(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("those who publish to the document stream are not told that this run reads it", "stream", x.SourceBegin.Stream.Name, "error", err)
		}
	}
	ended := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-l.sealNotifier.at:
			if ended[e.source] {
				continue
			}
			if err := l.tellEnd(ctx, e); err != nil {
				return err
			}
			if len(ended) == 0 {
				close(l.sealNotifier.told)
			}
			ended[e.source] = true
		}
	}
}

// tellEnd reports to LowWatermarks and producers where the run ends in a stream.
func (l *Leader) tellEnd(ctx context.Context, e ending) error {
	all, err := l.Streams.All(ctx, l.header)
	if err != nil {
		return err
	}
	x := all[e.source]
	if x.LowWatermarks == nil {
		return nil
	}
	if err = x.LowWatermarks.Ends(ctx, l.term, e.at); err == nil {
		err = x.LowWatermarks.Tell(ctx)
	}
	if errors.Is(err, fault.ErrLeadershipLost) {
		return l.deposed(err)
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("those who publish to the document stream are not told that this run does not read what comes now", "stream", x.SourceBegin.Stream.Name,
			"last_document", e.at, "error", err)
	}
	return nil
}

// Announced waits until LowWatermarks has the end, for tellWithin at most.
func (l *Leader) Announced(ctx context.Context) {
	limit := time.NewTimer(tellWithin)
	defer limit.Stop()
	select {
	case <-l.sealNotifier.told:
	case <-limit.C:
	case <-ctx.Done():
	}
}
