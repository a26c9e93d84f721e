package maintenance

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"loaderd/loader/backend"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/packonline"
)

// turns tracks the places of a document in the epochs of its source.
type turns struct {
	seed     uint64
	number   int // number of the source
	source   plan.SourceInfo
	last     uint64 // last document of the source; 0 if it has not ended
	sequence uint64

	epoch uint64 // the epoch of the document's next occurrence
	place uint64 // its place in that epoch
	comes bool   // false if it does not occur again
}

// turn finds the document's place in an epoch.
func (t *turns) turn(epoch uint64) {
	c := t.source.Config
	t.epoch, t.comes = epoch, false
	drawn := c.Block > 0 && (epoch > 0 || t.source.Sealed)
	if !c.Epochs.Another(epoch) || drawn && t.last == 0 {
		return
	}
	begin := mixture.Begin{First: t.source.Start, Last: t.source.Last, Sealed: t.source.Sealed}
	t.place, t.comes = mixture.WalkOf(t.seed, t.source.Name, c, begin, t.last, epoch).Place(t.sequence)
}

// passed reports whether the document's next occurrence was read by the time the sources were at these places.
func (t *turns) passed(places []mixture.Place) bool {
	if !t.comes || t.number >= len(places) {
		return false
	}
	at := places[t.number]
	return at.Epoch > t.epoch || at.Epoch == t.epoch && at.Taken > t.place
}

// Find calls f with every row of the plan that contains a part of a document, in order.
func Find(ctx context.Context, log backend.PlanLog, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	p := &planview.Reader{Log: log}
	end, err := p.End(ctx)
	if err != nil {
		return fmt.Errorf("find document %d: read the end of the plan: %w", plan.RefSequence(document), err)
	}
	h, err := p.Header(ctx)
	if err == nil {
		err = finder{p}.find(ctx, h, end.Steps, document, f)
	}
	if err != nil {
		return fmt.Errorf("find document %d of source %d: %w", plan.RefSequence(document), plan.RefSource(document), err)
	}
	return nil
}

// finder finds documents in a plan.
type finder struct{ *planview.Reader }

// find implements Find. Every plan.MarkSteps steps, the plan records the places of the sources, which bound the
// search. It starts after the last record before an occurrence of the document and ends once everything read by then
// has been used.
func (p finder) find(ctx context.Context, h planrecord.Header, steps, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	t := &turns{seed: h.Config.Seed, number: plan.RefSource(document), sequence: plan.RefSequence(document)}
	err := p.source(ctx, h, t)
	if err != nil {
		return err
	}
	t.turn(0)
	var until plan.Position // reached by a floor once the occurrences read so far are used up
	waits := false          // whether the search waits for that
	searched := uint64(0)   // earlier steps are searched
	for i := uint64(0); i < steps; i++ {
		if !waits && i >= searched {
			if !t.comes {
				return nil
			}
			if i, searched, err = p.nextTurn(ctx, t, i, steps); err != nil || i >= steps {
				return err
			}
		}
		s, err := p.Step(ctx, i)
		if err != nil {
			return err
		}
		if err := planview.Holds(s, document, f); err != nil {
			return err
		}
		for t.passed(s.Places) {
			waits, until = true, s.Cursor
			t.turn(max(t.epoch+1, s.Places[t.number].Epoch))
		}
		waits = waits && !s.Floor.Reaches(until)
	}
	return nil
}

// nextTurn returns the first step, not before from, that can contain the document's next occurrence. behind is the
// step after the first one whose recorded places include it.
func (p finder) nextTurn(ctx context.Context, t *turns, from, steps uint64) (first, behind uint64, err error) {
	mark := (from + plan.MarkSteps - 1) / plan.MarkSteps // the first one not before from
	marks := (steps + plan.MarkSteps - 1) / plan.MarkSteps
	n := sort.Search(int(marks-min(mark, marks)), func(i int) bool {
		s, failed := p.Step(ctx, (mark+uint64(i))*plan.MarkSteps)
		if failed != nil {
			err = failed
			return true
		}
		return t.passed(s.Places)
	})
	if n > 0 {
		from = (mark+uint64(n)-1)*plan.MarkSteps + 1
	}
	return from, min((mark+uint64(n))*plan.MarkSteps+1, steps), err
}

// source reads the configuration of a document's source, and its last document. It sets nothing if the run has no
// such source. For sources that were added later, and for the end of those read in a drawn order per epoch, it scans
// the plan.
func (p finder) source(ctx context.Context, h planrecord.Header, t *turns) error {
	infos := h.Infos()
	ends := func() bool { // whether the end is known or not needed
		if t.number >= len(infos) {
			return false
		}
		t.source = infos[t.number]
		if t.source.Sealed {
			t.last = t.source.Last
		}
		if h.Parent != nil && t.number < len(h.Parent.Sources) && h.Parent.Sources[t.number].Sealed {
			t.last = h.Parent.Sources[t.number].Last
		}
		return t.last > 0 || t.source.Sealed || t.source.Config.Epochs == 1 || t.source.Config.Block == 0
	}
	if ends() {
		return nil
	}
	err := p.Log.Scan(ctx, 2, func(at uint64, record []byte) error {
		if len(record) > 3 && planrecord.StepKind(record[3]) {
			return nil
		}
		e, err := planrecord.Decode(record)
		if err != nil {
			return planview.Damaged(at, err)
		}
		switch e := e.(type) {
		case planrecord.Mix:
			if infos = append(infos, e.Infos()...); ends() {
				return planview.ErrFound
			}
		case planrecord.SealSource:
			if e.Source == t.number {
				t.last = e.Last
				return planview.ErrFound
			}
		}
		return nil
	})
	if errors.Is(err, planview.ErrFound) {
		return nil
	}
	return err
}
