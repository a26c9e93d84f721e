package leader

import (
	"context"
	"maps"
	"slices"
	"strings"

	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// handleControl records the control of a command. The control takes effect before the next document that the
// planner reads. A flush of a single-source run takes effect after the current last document.
func (h *commandHandler) handleControl(ctx context.Context, c planrecord.Control, q Command) error {
	switch c.(type) {
	case planrecord.Mix, planrecord.Schedule: // also after the end: the reply to an earlier change may have been lost
		x, found, err := h.findChange(ctx, c)
		switch {
		case err != nil:
			q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown, Message: "cannot read the plan", Err: err,
				Advice: "try again"}}
			return nil
		case found:
			return h.queue.reply(ctx, q, x)
		}
	}
	if h.applier.Ended {
		return h.queue.reply(ctx, q, h.resultAfterEnd(c))
	}
	switch c := c.(type) {
	case planrecord.Flush:
		return h.flush(ctx, c, q)
	case planrecord.SealSource:
		status := h.applier.Planner.Mixture().Status()
		if c.Source >= len(status) || status[c.Source].Removed {
			return h.refuse(ctx, q, "the run has no source %d", c.Source)
		}
		if s := status[c.Source]; s.Sealed {
			return h.queue.reply(ctx, q, Result{At: s.Last})
		}
		return h.sealSources(ctx, c.Requester, q, c.Source)
	case planrecord.Mix:
		return h.changeMixture(ctx, c, q)
	case planrecord.Filter:
		return h.changeFilter(ctx, c, q)
	case planrecord.Schedule:
		return h.changeSchedule(ctx, c, q)
	}
	return h.refuse(ctx, q, "a record of kind %d cannot be requested", c.Kind())
}

// flush records a flush.
func (h *commandHandler) flush(ctx context.Context, c planrecord.Flush, q Command) error {
	if s := h.applier.Planner.Mixture().Status(); len(s) == 1 && s[0].Sealed {
		return h.refuse(ctx, q, "the run is sealed behind document %d: nothing is left to flush after it",
			s[0].Last)
	}
	present, err := h.setup.Streams.LastArrival(ctx, h.header)
	if err != nil {
		q.reply <- unknownEndResult(err)
		return nil
	}
	at := max(present, h.applier.Planner.Clock())
	return h.recordControl(ctx, c.PlaceAfter(at), func(context.Context) { q.reply <- Result{At: at} })
}

// sealAll records the end of all sources.
func (h *commandHandler) sealAll(ctx context.Context, c planrecord.Seal, q Command) error {
	if h.applier.Ended {
		return h.queue.reply(ctx, q, Result{At: lastSealedDocument(h.applier.Planner.Mixture().Status())})
	}
	var open []int
	for i, s := range h.applier.Planner.Mixture().Status() {
		if !s.Sealed && !s.Removed {
			open = append(open, i)
		}
	}
	return h.sealSources(ctx, c.Requester, q, open...)
}

// lastSealedDocument returns the highest sequence among the last documents of sealed sources.
func lastSealedDocument(sources []mixture.Status) (last uint64) {
	for _, s := range sources {
		last = max(last, s.Last)
	}
	return last
}

// resultAfterEnd returns the result of a control after the end of the run, where nothing is recorded. Sealing a
// sealed source is no error.
func (h *commandHandler) resultAfterEnd(c planrecord.Control) Result {
	if c, seal := c.(planrecord.SealSource); seal {
		if status := h.applier.Planner.Mixture().Status(); c.Source < len(status) && status[c.Source].Sealed {
			return Result{At: status[c.Source].Last}
		}
	}
	why := endReason(h.applier.Planner.Mixture().Status(), h.setup.Config.Mix.End)
	return refusal(fault.InvalidTicket, "the run has ended: %s", why)
}

// endReason returns why the run has ended, from the state of its sources and mix.end.
func endReason(sources []mixture.Status, end string) string {
	var used, left []string
	for _, s := range sources {
		switch {
		case s.Removed:
		case s.Exhausted:
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

// sealSources records that sources end at their current last documents. The result is the highest sequence of these;
// without sources, that of the sealed ones.
func (h *commandHandler) sealSources(ctx context.Context, by string, q Command, sources ...int) error {
	streams, err := h.setup.Streams.RunStreams(ctx, h.header)
	if err != nil {
		q.reply <- unknownEndResult(err)
		return nil
	}
	var records [][]byte
	var controls []planrecord.SealSource
	at := uint64(0)
	if len(sources) == 0 {
		at = lastSealedDocument(h.applier.Planner.Mixture().Status())
	}
	for _, i := range sources {
		state, err := streams[i].Documents.State(ctx)
		if err != nil {
			q.reply <- unknownEndResult(err)
			return nil
		}
		s := h.applier.Planner.Mixture()
		// State may be older than the documents that the planner has read or that a flush is placed after.
		last := max(state.Last, s.NextSequence(i)-1, lastPendingDocument(h.applier, i))
		at = max(at, last)
		c := planrecord.SealSource{Arrival: h.applier.Planner.Clock(), Requester: by, Source: i, Last: last}
		controls = append(controls, c)
		records = append(records, planrecord.Encode(c))
	}
	for _, c := range controls {
		h.applier.Record(c)
	}
	h.length.RecordControl()
	return h.queue.append(ctx, planWrite{records: records, onStored: func(context.Context) {
		for _, c := range controls {
			h.sealNotifier.seal(c.Source, c.Last)
		}
		q.reply <- Result{At: at}
	}})
}

// lastPendingDocument returns the last document of a source that a recorded flush is placed after, if the run has no
// other source.
func lastPendingDocument(a *planner.Applier, source int) uint64 {
	if n := len(a.Pending); n > 0 && a.Planner.Mixture().Len() == 1 {
		return a.Planner.Infos()[source].Start + a.Pending[n-1].EffectiveAfter() - 1
	}
	return 0
}

// changeMixture records a change of the mixture. It completes the weights here, where all earlier changes are in
// effect.
func (h *commandHandler) changeMixture(ctx context.Context, c planrecord.Mix, q Command) error {
	if planned := h.setup.View.PlannedSteps(); c.DecidedStep != nil && *c.DecidedStep > planned {
		return h.refuse(ctx, q, "a change that was decided on behind step %d, but the plan holds %d steps",
			*c.DecidedStep, planned)
	}
	m := h.applier.Planner.Mixture()
	c.Change = m.CompleteWeights(c.Change)
	schedule := h.applier.Planner.Schedule()
	if err := h.setup.Config.CheckChange(m, &schedule, c.Change); err != nil {
		return h.refuse(ctx, q, "%v", err)
	}
	step := h.applier.Planner.Next()
	a := Result{Mix: &state.MixResult{Step: step, Weights: c.Weights}}
	if q.DryRun {
		return h.queue.reply(ctx, q, a)
	}
	c.SourceBegins = nil
	for _, name := range slices.Sorted(maps.Keys(c.Add)) {
		b, err := h.setup.Streams.SourceBegin(ctx, name, c.Add[name])
		if err != nil {
			q.reply <- Result{err: &fault.Error{Reason: fault.SourceDown,
				Message: "cannot open the stream of source " + name, Err: err, Advice: "try again"}}
			return nil
		}
		c.SourceBegins = append(c.SourceBegins, b)
	}
	h.recentChanges.add(c, step)
	return h.recordControl(ctx, c.PlaceAfter(h.applier.Planner.Clock()), func(context.Context) { q.reply <- a })
}

// changeFilter records a change of a filter. The result is the first step that can differ. Nothing is recorded if the
// filter is as requested, so that a repeated request is recorded once.
func (h *commandHandler) changeFilter(ctx context.Context, c planrecord.Filter, q Command) error {
	p := h.applier.Planner
	now, err := p.Filters.Expression(c.Source)
	if err == nil {
		err = h.setup.Config.Documents.CheckFilter(c.Where)
	}
	if err != nil {
		return h.refuse(ctx, q, "%v", err)
	}
	result := Result{At: p.Next()}
	if q.DryRun || now == c.Where {
		return h.queue.reply(ctx, q, result)
	}
	return h.recordControl(ctx, c.PlaceAfter(p.Clock()), func(context.Context) { q.reply <- result })
}

// notifySealed notifies producers of the ends of the sources that the plan has sealed.
func (h *commandHandler) notifySealed() {
	for i, s := range h.applier.Planner.Mixture().Status() {
		if s.Sealed {
			h.sealNotifier.seal(i, s.Last)
		}
	}
}
