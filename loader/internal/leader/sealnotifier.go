package leader

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// notifyTimeout bounds how long Seal waits until LowWatermarks has where the run ends. The seal is in the plan log
// before that.
const notifyTimeout = 2 * time.Second

// sealNotifier carries the last documents of sealed streams from the leader's loop to LowWatermarks, so that producers
// learn where the run ends.
type sealNotifier struct {
	streams  *planview.Streams
	log      *slog.Logger
	term     *term
	sealed   chan sealedSource // receives a source's last document once its seal is decided
	notified chan struct{}     // closed when LowWatermarks has the first
}

// sealedSource is a source and the last document that the run reads of it.
type sealedSource struct {
	source int
	last   uint64
}

func newSealNotifier(streams *planview.Streams, log *slog.Logger, t *term) *sealNotifier {
	return &sealNotifier{streams: streams, log: log, term: t, sealed: make(chan sealedSource, mixture.MaxSources),
		notified: make(chan struct{})}
}

// seal notes that the run reads no document of a source behind last. Only the first call per source counts: a source
// ends once.
func (n *sealNotifier) seal(source int, last uint64) {
	select {
	case n.sealed <- sealedSource{source, last}:
	default:
	}
}

// run notifies producers that the run reads what they publish. Once the end of a source is decided, it notifies
// LowWatermarks and the producers of that.
func (n *sealNotifier) run(ctx context.Context, h planrecord.Header) error {
	all, err := n.streams.All(ctx, h)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.LowWatermarks == nil {
			continue
		}
		if err := x.LowWatermarks.Tell(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("those who publish to the document stream are not told that this run reads it",
				"stream", x.SourceBegin.Stream.Name, "error", err)
		}
	}
	ended := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-n.sealed:
			if ended[s.source] {
				continue
			}
			if err := n.notify(ctx, h, s); err != nil {
				return err
			}
			if len(ended) == 0 {
				close(n.notified)
			}
			ended[s.source] = true
		}
	}
}

// notify reports to LowWatermarks and producers where the run ends in a stream.
func (n *sealNotifier) notify(ctx context.Context, h planrecord.Header, s sealedSource) error {
	all, err := n.streams.All(ctx, h)
	if err != nil {
		return err
	}
	x := all[s.source]
	if x.LowWatermarks == nil {
		return nil
	}
	if err = x.LowWatermarks.Ends(ctx, n.term.position, s.last); err == nil {
		err = x.LowWatermarks.Tell(ctx)
	}
	if errors.Is(err, fault.ErrLeadershipLost) {
		return n.term.lost(err)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("those who publish to the document stream are not told that this run does not read what comes now",
			"stream", x.SourceBegin.Stream.Name, "last_document", s.last, "error", err)
	}
	return nil
}

// wait waits until LowWatermarks has the end of a source, for notifyTimeout at most.
func (n *sealNotifier) wait(ctx context.Context) {
	limit := time.NewTimer(notifyTimeout)
	defer limit.Stop()
	select {
	case <-n.notified:
	case <-limit.C:
	case <-ctx.Done():
	}
}
