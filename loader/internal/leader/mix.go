package leader

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/feed"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// decide records a control. It takes effect before the next document that the planner takes; a drain of the only source
// behind the last one that is there.
func (l *loop) decide(ctx context.Context, c plan.Control, q Command) error {
	if m, mixes := c.(plan.Mix); mixes { // also behind the end: the answer of a change before it may have been lost
		x, found, err := l.changed(ctx, m)
		switch {
		case err != nil:
			q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown, Message: "cannot read the plan", Err: err, Do: "try again"}}
			return nil
		case found:
			return l.tell(ctx, q, Result{Mix: &x})
		}
	}
	if l.applier.Ended {
		return l.tell(ctx, q, l.late(c))
	}
	switch c := c.(type) {
	case plan.Drain:
		return l.drain(ctx, c, q)
	case plan.SealSource:
		status := l.applier.Planner.Mixture().Status()
		if c.Source >= len(status) || status[c.Source].Removed {
			return l.tell(ctx, q, refusal(fault.BadTicket, "the run has no source %d", c.Source))
		}
		if s := status[c.Source]; s.Sealed {
			return l.tell(ctx, q, Result{At: s.Last})
		}
		return l.sealSources(ctx, c.By, q, c.Source)
	case plan.Mix:
		return l.change(ctx, c, q)
	}
	return l.tell(ctx, q, refusal(fault.BadTicket, "nobody can ask for a record of kind %d", c.Kind()))
}

// drain records a drain.
func (l *loop) drain(ctx context.Context, c plan.Drain, q Command) error {
	if s := l.applier.Planner.Mixture().Status(); len(s) == 1 && s[0].Sealed {
		return l.tell(ctx, q, refusal(fault.BadTicket, "the run is sealed behind document %d: nothing is left to drain after it", s[0].Last))
	}
	present, err := l.leader.setup.Streams.Present(ctx, l.leader.restorer.header)
	if err != nil {
		q.reply <- noEnd(err)
		return nil
	}
	at := max(present, l.applier.Planner.Clock())
	return l.control(ctx, c.PlaceBehind(at), func(context.Context) { q.reply <- Result{At: at} })
}

// seal records that all sources end.
func (l *loop) seal(ctx context.Context, c plan.Seal, q Command) error {
	if l.applier.Ended {
		return l.tell(ctx, q, Result{At: lastSealed(l.applier.Planner.Mixture().Status())})
	}
	var open []int
	for i, s := range l.applier.Planner.Mixture().Status() {
		if !s.Sealed && !s.Removed {
			open = append(open, i)
		}
	}
	return l.sealSources(ctx, c.By, q, open...)
}

// lastSealed returns the highest sequence of the last documents of sealed sources.
func lastSealed(sources []mixture.Status) (last uint64) {
	for _, s := range sources {
		last = max(last, s.Last)
	}
	return last
}

// late answers a control that comes behind the end of the run: nothing is recorded there. To end what has ended once
// more is no mistake.
func (l *loop) late(c plan.Control) Result {
	if c, seal := c.(plan.SealSource); seal {
		if status := l.applier.Planner.Mixture().Status(); c.Source < len(status) && status[c.Source].Sealed {
			return Result{At: status[c.Source].Last}
		}
	}
	return refusal(fault.BadTicket, "the run has ended: %s", whyEnded(l.applier.Planner.Mixture().Status(), l.leader.setup.Config.Mix.End))
}

// whyEnded returns why the run has ended, from the state of its sources and mix.end.
func whyEnded(sources []mixture.Status, end string) string {
	var used, left []string
	for _, s := range sources {
		switch {
		case s.Removed:
		case s.UsedUp:
			used = append(used, s.Name)
		default:
			left = append(left, s.Name)
		}
	}
	switch {
	case len(left) == 0:
		return "all of its sources are used up"
	case end == mixture.EndFirst && len(used) > 0:
		return "source " + strings.Join(used, ", ") + " is used up, and mix.end is first"
	}
	return "all of its sources are sealed, and those with documents left have no weight: " + strings.Join(left, ", ")
}

// sealSources records that sources end behind their present last documents. The answer is the last of these; without
// any source, that of those which are sealed.
func (l *loop) sealSources(ctx context.Context, by string, q Command, sources ...int) error {
	streams, err := l.leader.setup.Streams.All(ctx, l.leader.restorer.header)
	if err != nil {
		q.reply <- noEnd(err)
		return nil
	}
	var records [][]byte
	var controls []plan.SealSource
	answered := uint64(0)
	if len(sources) == 0 {
		answered = lastSealed(l.applier.Planner.Mixture().Status())
	}
	for _, i := range sources {
		state, err := streams[i].Documents.State(ctx)
		if err != nil {
			q.reply <- noEnd(err)
			return nil
		}
		s := l.applier.Planner.Mixture()
		last := max(state.Last, s.Sequence(i)-1, lastNamed(l.applier, i)) // State may be older than what was taken, or named
		answered = max(answered, last)
		c := plan.SealSource{At: l.applier.Planner.Clock(), By: by, Source: i, Last: last}
		controls = append(controls, c)
		records = append(records, plan.EncodeRecord(c))
	}
	for _, c := range controls {
		l.applier.Record(c)
	}
	l.leader.length.Recorded()
	return l.append(ctx, write{records: records, stored: func(context.Context) {
		for _, c := range controls {
			l.leader.sealNotifier.seal(c.Source, c.Last)
		}
		q.reply <- Result{At: answered}
	}})
}

// lastNamed returns the last document of a source behind which a recorded drain stands, where the run has no other
// source.
func lastNamed(a *planner.Applier, source int) uint64 {
	if n := len(a.Pending); n > 0 && a.Planner.Mixture().Len() == 1 {
		return a.Planner.Infos()[source].Start + a.Pending[n-1].Behind() - 1
	}
	return 0
}

// change records a change of the mixture. It completes the weights here, where all changes before it are in force.
func (l *loop) change(ctx context.Context, c plan.Mix, q Command) error {
	if planned := l.leader.setup.View.Planned(); c.Decided != nil && *c.Decided > planned {
		return l.tell(ctx, q, refusal(fault.BadTicket, "a change that was decided on behind step %d, but the plan holds %d steps", *c.Decided, planned))
	}
	m := l.applier.Planner.Mixture()
	c.Change = m.Complete(c.Change)
	if err := l.leader.setup.Config.CheckChange(m, c.Change); err != nil {
		return l.tell(ctx, q, refusal(fault.BadTicket, "%v", err))
	}
	step := l.applier.Planner.Next()
	a := Result{Mix: &state.MixResult{Step: step, Weights: c.Weights}}
	if q.DryRun {
		return l.tell(ctx, q, a)
	}
	c.Begins = nil
	for _, name := range slices.Sorted(maps.Keys(c.Add)) {
		b, err := l.leader.setup.Streams.Begin(ctx, name, c.Add[name])
		if err != nil {
			q.reply <- Result{err: &fault.Error{Reason: fault.SourceDown, Message: "cannot open the stream of source " + name, Err: err, Do: "try again"}}
			return nil
		}
		c.Begins = append(c.Begins, b)
	}
	l.recent.add(c, step)
	return l.control(ctx, c.PlaceBehind(l.applier.Planner.Clock()), func(context.Context) { q.reply <- a })
}

// dry returns for how long the source that comes next has had no document; false while it has one, or none comes next.
func (l *loop) dry() (time.Duration, bool) {
	source, sequence, ok := l.applier.Planner.Wants()
	f := l.feeds.Of[source]
	if !ok || f == nil || len(f.Held) > 0 {
		return 0, false
	}
	s := f.Reader.Status()
	if s.DrySince.IsZero() || sequence <= s.Last {
		return 0, false
	}
	return time.Since(s.DrySince), true
}

// lost refuses to wait for documents of a source that are not there although the plan was made of them, or names them.
func (l *loop) lost() error {
	dry, ok := l.dry()
	if !ok || dry < feed.LostAfter {
		return nil
	}
	source, sequence, _ := l.applier.Planner.Wants()
	m := l.applier.Planner.Mixture()
	names := m.Len() == 1 && len(l.applier.Pending) > 0 // a drain stands behind documents that were there
	if !l.repeats() && !names && !m.Status()[source].Sealed {
		return nil
	}
	return feed.Lost(l.leader.setup.Name, l.applier.Planner.Mixture().Name(source), sequence, l.feeds.Of[source].Reader.Status().Last)
}

// dryness lets a source rest that has had no document for long, where the others are to share its weight, and lets it
// wake when it has one. The clock decides only when that is recorded: the plan follows from the record.
func (l *loop) dryness(ctx context.Context) error {
	m := l.applier.Planner.Mixture()
	if m.Len() == 1 || l.leader.setup.Config.Mix.Dry != mixture.DryShare || l.repeats() || l.applier.Ended {
		return nil
	}
	at := l.applier.Planner.Clock()
	for i, s := range m.Status() {
		if !s.Resting || s.Removed {
			continue
		}
		f, err := l.feeds.Open(l.applier.Planner, i)
		if err != nil {
			return err
		}
		if x := f.Reader.Status(); len(f.Held) > 0 || x.Fetched > x.Delivered {
			l.leader.setup.Log.Info("a source has documents again, and takes its share", "source", s.Name)
			return l.control(ctx, plan.Rest{At: at, Source: i}, nil)
		}
	}
	if dry, ok := l.dry(); ok && dry >= l.leader.setup.Config.Mix.DryAfter {
		source, _, _ := l.applier.Planner.Wants()
		l.leader.setup.Log.Warn("a source has no documents: the others share its weight until it has", "source", m.Name(source), "dry", dry.Round(time.Millisecond))
		return l.control(ctx, plan.Rest{At: at, Source: source, Rests: true}, nil)
	}
	return nil
}

// tellSealed tells those who publish where sources end that the plan has sealed.
func (l *loop) tellSealed() {
	for i, s := range l.applier.Planner.Mixture().Status() {
		if s.Sealed {
			l.leader.sealNotifier.seal(i, s.Last)
		}
	}
}
