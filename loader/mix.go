package loader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// decideMixed records a control of a run with several sources. It takes effect before the next document that the planner takes.
func (l *loop) decideMixed(ctx context.Context, c plan.Control, q request) error {
	if m, mixes := c.(plan.Mix); mixes { // also behind the end: the answer of a change before it may have been lost
		x, found, err := l.changed(ctx, m)
		switch {
		case err != nil:
			q.reply <- answer{err: &Error{Reason: PlanLogDown, Message: "cannot read the plan", Err: err, Do: "try again"}}
			return nil
		case found:
			return l.tell(ctx, q, answer{mix: &x})
		}
	}
	if l.applier.Ended {
		return l.tell(ctx, q, l.late(c))
	}
	at := l.applier.Planner.Clock()
	switch c := c.(type) {
	case plan.Drain:
		return l.control(ctx, c.PlaceBehind(at), func(context.Context) { q.reply <- answer{at: at} })
	case plan.Seal:
		var all []int
		for i, s := range l.applier.Planner.Mixture().Status() {
			if !s.Sealed && !s.Removed {
				all = append(all, i)
			}
		}
		return l.sealSources(ctx, c.By, q, func(uint64) uint64 { return at }, all...)
	case plan.SealSource:
		status := l.applier.Planner.Mixture().Status()
		if c.Source >= len(status) || status[c.Source].Removed {
			return l.tell(ctx, q, refusal(BadTicket, "the run has no source %d", c.Source))
		}
		if s := status[c.Source]; s.Sealed {
			return l.tell(ctx, q, answer{at: s.Last})
		}
		return l.sealSources(ctx, c.By, q, func(last uint64) uint64 { return last }, c.Source)
	case plan.Mix:
		return l.change(ctx, c, q)
	}
	return l.tell(ctx, q, refusal(BadTicket, "nobody can ask for a record of kind %d", c.Kind()))
}

// late answers a control that comes behind the end of the run: nothing is recorded there. To end it, or what has ended, once more is no mistake.
func (l *loop) late(c plan.Control) answer {
	switch c := c.(type) {
	case plan.Seal:
		return answer{at: l.applier.Planner.Clock()}
	case plan.SealSource:
		if status := l.applier.Planner.Mixture().Status(); c.Source < len(status) && status[c.Source].Sealed {
			return answer{at: status[c.Source].Last}
		}
	}
	return refusal(BadTicket, "the run has ended: %s", l.ending())
}

// ending returns why the run has ended, from the state of its sources.
func (l *loop) ending() string {
	var used, left []string
	for _, s := range l.applier.Planner.Mixture().Status() {
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
	case l.config.Mix.End == mixture.EndFirst && len(used) > 0:
		return "source " + strings.Join(used, ", ") + " is used up, and mix.end is first"
	}
	return "all of its sources are sealed, and those with documents left have no weight: " + strings.Join(left, ", ")
}

// sealSources records that sources end behind their present last documents. say makes the answer of the last of these.
func (l *loop) sealSources(ctx context.Context, by string, q request, say func(last uint64) uint64, sources ...int) error {
	streams, err := l.streams.all(ctx, l.header)
	if err != nil {
		q.reply <- noEnd(err)
		return nil
	}
	var records [][]byte
	var controls []plan.SealSource
	last := uint64(0)
	for _, i := range sources {
		state, err := streams[i].Documents.State(ctx)
		if err != nil {
			q.reply <- noEnd(err)
			return nil
		}
		s := l.applier.Planner.Mixture()
		last = max(state.Last, s.Sequence(i)-1) // State may be older than what was taken
		c := plan.SealSource{At: l.applier.Planner.Clock(), By: by, Source: i, Last: last}
		controls = append(controls, c)
		records = append(records, plan.EncodeRecord(c))
	}
	for _, c := range controls {
		l.applier.Record(c)
	}
	l.long.recorded()
	return l.append(ctx, write{records: records, stored: func(context.Context) {
		for _, c := range controls {
			l.news.decided(c.Source, c.Last)
		}
		q.reply <- answer{at: say(last)}
	}})
}

// change records a change of the mixture. It completes the weights here, where all changes before it are in force.
func (l *loop) change(ctx context.Context, c plan.Mix, q request) error {
	if planned := l.plan.planned(); c.Decided != nil && *c.Decided > planned {
		return l.tell(ctx, q, refusal(BadTicket, "a change that was decided on behind step %d, but the plan holds %d steps", *c.Decided, planned))
	}
	m := l.applier.Planner.Mixture()
	c.Change = m.Complete(c.Change)
	if err := l.config.CheckChange(m, c.Change); err != nil {
		return l.tell(ctx, q, refusal(BadTicket, "%v", err))
	}
	step := l.applier.Planner.Next()
	a := answer{mix: &MixResult{Step: step, Weights: c.Weights}}
	if q.dryRun {
		return l.tell(ctx, q, a)
	}
	c.Begins = nil
	for _, name := range slices.Sorted(maps.Keys(c.Add)) {
		b, err := l.streams.begin(ctx, name, c.Add[name])
		if err != nil {
			q.reply <- answer{err: &Error{Reason: SourceDown, Message: "cannot open the stream of source " + name, Err: err, Do: "try again"}}
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
	f := l.feeds.of[source]
	if !ok || f == nil || len(f.held) > 0 {
		return 0, false
	}
	s := f.reader.Status()
	if s.DrySince.IsZero() || sequence <= s.Last {
		return 0, false
	}
	return time.Since(s.DrySince), true
}

// lostAfter is how long a source may have no further document although the plan was made of more.
const lostAfter = 5 * time.Second

// lost refuses to wait for documents of a source that the plan was made of and that are not there.
func (l *loop) lost() error {
	dry, ok := l.dry()
	if !l.config.Mixed() || !ok || dry < lostAfter {
		return nil
	}
	source, sequence, _ := l.applier.Planner.Wants()
	return lostOfSource(l.name, l.applier.Planner.Mixture().Name(source), sequence, l.feeds.of[source].reader.Status().Last)
}

func lostOfSource(run, source string, wanted, last uint64) error {
	return &Error{Reason: DocumentLost,
		Message: fmt.Sprintf("the plan of run %s was made of document %d of source %s, and its stream ends at %d", run, wanted, source, last),
		Do:      "restore the stream that the run began with, or start a new run", Facts: map[string]string{"source": source}}
}

// dryness lets a source rest that has had no document for long, where the others are to share its weight, and lets it wake when it has one. The
// clock decides only when that is recorded: the plan follows from the record.
func (l *loop) dryness(ctx context.Context) error {
	m := l.applier.Planner.Mixture()
	if m == nil || l.config.Mix.Dry != mixture.DryShare || l.repeats() || l.applier.Ended {
		return nil
	}
	at := l.applier.Planner.Clock()
	for i, s := range m.Status() {
		if !s.Resting || s.Removed {
			continue
		}
		f, err := l.feeds.open(l.applier.Planner, i)
		if err != nil {
			return err
		}
		if x := f.reader.Status(); len(f.held) > 0 || x.Fetched > x.Delivered {
			l.log.Info("a source has documents again, and takes its share", "source", s.Name)
			return l.control(ctx, plan.Rest{At: at, Source: i}, nil)
		}
	}
	if dry, ok := l.dry(); ok && dry >= l.config.Mix.DryAfter {
		source, _, _ := l.applier.Planner.Wants()
		l.log.Warn("a source has no documents: the others share its weight until it has", "source", m.Name(source), "dry", dry.Round(time.Millisecond))
		return l.control(ctx, plan.Rest{At: at, Source: source, Rests: true}, nil)
	}
	return nil
}

// tellSealed tells those who publish where sources end that the plan has sealed.
func (l *loop) tellSealed() {
	m := l.applier.Planner.Mixture()
	if m == nil {
		return
	}
	for i, s := range m.Status() {
		if s.Sealed {
			l.news.decided(i, s.Last)
		}
	}
}
