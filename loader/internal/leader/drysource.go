package leader

import (
	"context"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/internal/feed"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
)

// dryDuration returns for how long the next source has had no document; false if it has one, or if no source is next.
func (l *loop) dryDuration() (time.Duration, bool) {
	source, sequence, ok := l.applier.Planner.NextDocument()
	f := l.feeds.Feeds[source]
	if !ok || f == nil || len(f.Documents) > 0 {
		return 0, false
	}
	s := f.Reader.Status()
	if s.DrySince.IsZero() || sequence <= s.Last {
		return 0, false
	}
	return time.Since(s.DrySince), true
}

// missingDocument is a document that the plan needs and the reader of its source does not know.
type missingDocument struct {
	source   int
	sequence uint64
	since    time.Time
}

// checkLostDocuments returns an error instead of waiting for documents that a stream does not hold although the plan
// was made from them or names them. A stream can have more documents than its reader knows, so it must have reported
// its end long after the document was missed.
func (l *loop) checkLostDocuments() error {
	source, sequence, ok := l.nextMissing()
	if !ok {
		l.missing = missingDocument{}
		return nil
	}
	if m := &l.missing; m.since.IsZero() || m.source != source || m.sequence != sequence {
		*m = missingDocument{source, sequence, time.Now()}
	}
	s := l.feeds.Feeds[source].Reader.Status()
	if s.ConfirmedAt.Sub(l.missing.since) < feed.LostTimeout {
		return nil
	}
	return feed.NewLostError(l.setup.Name, l.applier.Planner.Mixture().Name(source), sequence, s.Last)
}

// nextMissing returns the next document if its reader does not know it, although the plan was made from it or names it.
func (l *loop) nextMissing() (source int, sequence uint64, ok bool) {
	if _, dry := l.dryDuration(); !dry {
		return 0, 0, false
	}
	source, sequence, _ = l.applier.Planner.NextDocument()
	m := l.applier.Planner.Mixture()
	names := m.Len() == 1 && len(l.applier.Pending) > 0 // a pending flush is placed after documents that existed
	return source, sequence, l.isBoundByLog() || names || m.Status()[source].Sealed
}

// pauseDry pauses a source that has had no document for Mix.DryAfter, if the other sources share its weight, and
// resumes it once it has one. The clock only decides when this is recorded; the plan follows from the record.
func (l *loop) pauseDry(ctx context.Context) error {
	m := l.applier.Planner.Mixture()
	if m.Len() == 1 || l.setup.Config.Mix.OnDry != mixture.DryShare || l.isBoundByLog() || l.applier.Ended {
		return nil
	}
	at := l.applier.Planner.Clock()
	for i, s := range m.Status() {
		if !s.Paused || s.Removed {
			continue
		}
		f, err := l.feeds.Open(l.applier.Planner, i)
		if err != nil {
			return err
		}
		if x := f.Reader.Status(); len(f.Documents) > 0 || x.Fetched > x.Delivered {
			l.setup.Log.Info("source resumed", event.SourceResumed, "source", s.Name)
			return l.commands.recordControl(ctx, planrecord.Rest{Arrival: at, Source: i}, nil)
		}
	}
	if dry, ok := l.dryDuration(); ok && dry >= l.setup.Config.Mix.DryAfter {
		source, _, _ := l.applier.Planner.NextDocument()
		l.setup.Log.Warn("source paused: it has no documents, and other sources share its weight", event.SourcePaused,
			"source", m.Name(source), "dry", dry.Round(time.Millisecond))
		return l.commands.recordControl(ctx, planrecord.Rest{Arrival: at, Source: source, Rests: true}, nil)
	}
	return nil
}
