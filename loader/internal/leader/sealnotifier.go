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

// notifyTimeout bounds how long Seal waits until LowWatermarks has stored the run's end. The seal is in the plan log
// before that.
const notifyTimeout = 2 * time.Second

// sealNotifier passes the last documents of sealed streams from the leader's loop to LowWatermarks, which notifies
// producers of the run's end.
type sealNotifier struct {
	streams  *planview.Streams
	log      *slog.Logger
	term     *term
	sealed   chan sealedSource // receives a source's last document once its seal is decided
	notified chan struct{}     // closed once LowWatermarks has stored the first one
}

// sealedSource is a source and the last document that the run reads from it.
type sealedSource struct {
	source int
	last   uint64
}

func newSealNotifier(streams *planview.Streams, log *slog.Logger, t *term) *sealNotifier {
	return &sealNotifier{streams: streams, log: log, term: t, sealed: make(chan sealedSource, mixture.MaxSources),
		notified: make(chan struct{})}
}

// seal records that the run reads no document of a source after last. Only the first call per source has an effect,
// because a source ends once.
func (n *sealNotifier) seal(source int, last uint64) {
	select {
	case n.sealed <- sealedSource{source, last}:
	default:
	}
}

// run notifies producers that the run reads their documents. Once the end of a source is decided, it stores the end
// in LowWatermarks and notifies the producers.
func (n *sealNotifier) run(ctx context.Context, h planrecord.Header) error {
	all, err := n.streams.RunStreams(ctx, h)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.LowWatermarks == nil {
			continue
		}
		if err := x.LowWatermarks.NotifyProducers(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("cannot announce to producers that this run reads the document stream",
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

// notify reports the run's end in a stream to LowWatermarks and producers.
func (n *sealNotifier) notify(ctx context.Context, h planrecord.Header, s sealedSource) error {
	all, err := n.streams.RunStreams(ctx, h)
	if err != nil {
		return err
	}
	x := all[s.source]
	if x.LowWatermarks == nil {
		return nil
	}
	if err = x.LowWatermarks.RecordEnd(ctx, n.term.position, s.last); err == nil {
		err = x.LowWatermarks.NotifyProducers(ctx)
	}
	if errors.Is(err, fault.ErrLeadershipLost) {
		return n.term.leadershipError(err)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("cannot announce to producers that this run no longer reads the document stream",
			"stream", x.SourceBegin.Stream.Name, "last_document", s.last, "error", err)
	}
	return nil
}

// wait waits until LowWatermarks has stored the end of a source, for notifyTimeout at most.
func (n *sealNotifier) wait(ctx context.Context) {
	limit := time.NewTimer(notifyTimeout)
	defer limit.Stop()
	select {
	case <-n.notified:
	case <-limit.C:
	case <-ctx.Done():
	}
}
