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

// occurrences tracks the places of a document in the epochs of its source.
type occurrences struct {
	seed         uint64
	sourceNumber int // number of the source
	source       plan.SourceInfo
	last         uint64 // last document of the source; 0 if it has not ended
	sequence     uint64

	epoch  uint64 // the epoch of the document's next occurrence
	index  uint64 // its place in that epoch
	occurs bool   // false if it does not occur again
}

// seekEpoch finds the document's place in an epoch.
func (t *occurrences) seekEpoch(epoch uint64) {
	c := t.source.Config
	t.epoch, t.occurs = epoch, false
	drawn := c.Block > 0 && (epoch > 0 || t.source.Sealed)
	if !c.Epochs.HasEpochAfter(epoch) || drawn && t.last == 0 {
		return
	}
	begin := mixture.SourceRange{First: t.source.Start, Last: t.source.Last, Sealed: t.source.Sealed}
	t.index, t.occurs = mixture.NewEpochOrder(t.seed, t.source.Name, c, begin, t.last, epoch).Index(t.sequence)
}

// isPassed reports whether the document's next occurrence was read by the time the sources were at these places.
func (t *occurrences) isPassed(places []mixture.SourcePosition) bool {
	if !t.occurs || t.sourceNumber >= len(places) {
		return false
	}
	at := places[t.sourceNumber]
	return at.Epoch > t.epoch || at.Epoch == t.epoch && at.Taken > t.index
}

// FindRows calls f with every row of the plan that contains a part of a document, in order.
func FindRows(ctx context.Context, log backend.PlanLog, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	p := &planview.Reader{Log: log}
	end, err := p.ReadEnd(ctx)
	if err != nil {
		return fmt.Errorf("find document %d: read the end of the plan: %w", plan.RefSequence(document), err)
	}
	h, err := p.Header(ctx)
	if err == nil {
		err = finder{p}.findRows(ctx, h, end.Steps, document, f)
	}
	if err != nil {
		return fmt.Errorf("find document %d of source %d: %w", plan.RefSequence(document), plan.RefSource(document), err)
	}
	return nil
}

// finder finds documents in a plan.
type finder struct{ *planview.Reader }

// findRows implements Find. Every plan.SourcePositionInterval steps, the plan records the places of the sources, which
// bound the search. It starts after the last record before an occurrence of the document and ends once everything read
// by then has been used.
func (p finder) findRows(ctx context.Context, h planrecord.Header, steps, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	t := &occurrences{seed: h.Config.Seed, sourceNumber: plan.RefSource(document), sequence: plan.RefSequence(document)}
	err := p.readSource(ctx, h, t)
	if err != nil {
		return err
	}
	t.seekEpoch(0)
	var until plan.Position // reached by a low watermark once the occurrences read so far are used up
	waits := false          // whether the search waits for that
	searched := uint64(0)   // earlier steps are searched
	for i := uint64(0); i < steps; i++ {
		if !waits && i >= searched {
			if !t.occurs {
				return nil
			}
			if i, searched, err = p.nextOccurrence(ctx, t, i, steps); err != nil || i >= steps {
				return err
			}
		}
		s, err := p.Step(ctx, i)
		if err != nil {
			return err
		}
		if err := planview.VisitRows(s, document, f); err != nil {
			return err
		}
		for t.isPassed(s.SourcePositions) {
			waits, until = true, s.Cursor
			t.seekEpoch(max(t.epoch+1, s.SourcePositions[t.sourceNumber].Epoch))
		}
		waits = waits && !s.LowWatermark.Reaches(until)
	}
	return nil
}

// nextOccurrence returns the first step, not before from, that can contain the document's next occurrence. behind is
// the step after the first one whose recorded places include it.
func (p finder) nextOccurrence(ctx context.Context, t *occurrences, from,
	steps uint64) (first, behind uint64, err error) {
	mark := (from + plan.SourcePositionInterval - 1) / plan.SourcePositionInterval // the first one not before from
	marks := (steps + plan.SourcePositionInterval - 1) / plan.SourcePositionInterval
	n := sort.Search(int(marks-min(mark, marks)), func(i int) bool {
		s, failed := p.Step(ctx, (mark+uint64(i))*plan.SourcePositionInterval)
		if failed != nil {
			err = failed
			return true
		}
		return t.isPassed(s.SourcePositions)
	})
	if n > 0 {
		from = (mark+uint64(n)-1)*plan.SourcePositionInterval + 1
	}
	return from, min((mark+uint64(n))*plan.SourcePositionInterval+1, steps), err
}

// readSource reads the configuration of a document's source, and its last document. It sets nothing if the run has no
// such source. For sources that were added later, and for the end of those read in a drawn order per epoch, it scans
// the plan.
func (p finder) readSource(ctx context.Context, h planrecord.Header, t *occurrences) error {
	infos := h.Infos()
	ends := func() bool { // whether the end is known or not needed
		if t.sourceNumber >= len(infos) {
			return false
		}
		t.source = infos[t.sourceNumber]
		if t.source.Sealed {
			t.last = t.source.Last
		}
		if h.Parent != nil && t.sourceNumber < len(h.Parent.Sources) && h.Parent.Sources[t.sourceNumber].Sealed {
			t.last = h.Parent.Sources[t.sourceNumber].Last
		}
		return t.last > 0 || t.source.Sealed || t.source.Config.Epochs == 1 || t.source.Config.Block == 0
	}
	if ends() {
		return nil
	}
	err := p.Log.Scan(ctx, 2, func(at uint64, record []byte) error {
		if len(record) > 3 && planrecord.IsStepKind(record[3]) {
			return nil
		}
		e, err := planrecord.Decode(record)
		if err != nil {
			return planview.DamagedRecordError(at, err)
		}
		switch e := e.(type) {
		case planrecord.Mix:
			if infos = append(infos, e.Infos()...); ends() {
				return planview.ErrStopScan
			}
		case planrecord.SealSource:
			if e.Source == t.sourceNumber {
				t.last = e.Last
				return planview.ErrStopScan
			}
		}
		return nil
	})
	if errors.Is(err, planview.ErrStopScan) {
		return nil
	}
	return err
}
