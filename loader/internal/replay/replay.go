package replay

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/packonline"
)

// Replay reads the plan log while an applier plans again. Controls and other entries of the log go to the applier;
// the steps that it makes are compared with those of the log.
type Replay struct {
	applier      *planner.Applier
	records      chan planRecord
	err          error      // why the scan stopped; read after records is closed
	Next         *plan.Step // the step that the planner must make next
	Done         bool       // no step follows in the log
	Reader       planrecord.Reader
	NextPosition uint64                              // position of the last record of Next
	endPosition  uint64                              // position of the End; 0 without one
	OnEntry      func(at uint64, e planrecord.Entry) // receives every entry except steps; may be nil
	Tail         planrecord.Tail                     // last record read
}

type planRecord struct {
	tail  planrecord.Tail
	entry planrecord.Entry
}

// Start starts to read the log at position from. The applier must cover all records before from, and o validates those
// that follow.
func Start(ctx context.Context, log backend.PlanLog, from uint64, a *planner.Applier, o planrecord.Validator) *Replay {
	p := &Replay{applier: a, records: make(chan planRecord, 16), Reader: planrecord.Reader{Validator: o}}
	go func() {
		defer close(p.records)
		p.err = log.Scan(ctx, from, func(at uint64, b []byte) error {
			e, err := planrecord.Decode(b)
			if err != nil {
				return planview.DamagedRecordError(at, err)
			}
			select {
			case p.records <- planRecord{planrecord.NewTail(at, b), e}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return p
}

// AdvanceToStep reads up to the next step. It passes every entry before that step to the applier, in log order.
func (p *Replay) AdvanceToStep() error {
	for p.Next == nil && !p.Done {
		r, ok := <-p.records
		if !ok {
			p.Done = true
			if cut := p.Reader.CheckComplete(); p.err == nil && cut != nil {
				return planview.DamagedRecordError(p.Tail.Position+1, cut)
			}
			return p.err
		}
		p.Tail = r.tail
		s, err := p.Reader.Read(r.entry)
		if err != nil {
			return planview.DamagedRecordError(r.tail.Position, err)
		}
		if _, part := r.entry.(planrecord.StepPart); !part {
			p.applyEntry(r.entry)
		}
		p.NextPosition = r.tail.Position
		p.Next = s
	}
	return nil
}

// applyEntry passes an entry to the applier.
func (p *Replay) applyEntry(e planrecord.Entry) {
	p.applier.Record(e)
	if _, end := e.(planrecord.End); end {
		p.endPosition = p.Tail.Position
	}
	if p.OnEntry != nil {
		p.OnEntry(p.Tail.Position, e)
	}
}

// CheckNotEnded returns an error for a step that the planner makes although the run has ended according to the log.
func (p *Replay) CheckNotEnded(s *plan.Step) error {
	if p.endPosition == 0 {
		return nil
	}
	return planview.DamagedRecordError(p.endPosition, fmt.Errorf(
		"it ends the run with %d steps, and the documents up to the seal make a step %d", p.applier.End.Steps, s.Index))
}

// MatchStep compares a step that the planner made with the one in the log. It returns fault.PlanMismatch if they
// differ.
func (p *Replay) MatchStep(s *plan.Step) error {
	defer func() { p.Next = nil }()
	if d := stepDifference(p.Next, s); d != "" {
		return &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("re-planning gives another step %d than the plan log holds: %s\n  log:     %s\n  planned: %s",
				s.Index, d, formatStep(p.Next), formatStep(s)),
			Advice: fmt.Sprintf("the document stream, the tokenizer or the binary changed since the step was planned: restore "+
				"them or start a new run; "+
				"if record %d of the plan is none that a daemon wrote: loaderd run repair --before %d", p.NextPosition,
				p.NextPosition)}
	}
	return nil
}

func stepDifference(a, b *plan.Step) string {
	switch {
	case a.Index != b.Index:
		return fmt.Sprintf("step %d against %d", a.Index, b.Index)
	case a.Bucket != b.Bucket:
		return fmt.Sprintf("bucket %d against %d", a.Bucket, b.Bucket)
	case len(a.Rows) != len(b.Rows):
		return fmt.Sprintf("%d rows against %d", len(a.Rows), len(b.Rows))
	}
	for i := range a.Rows {
		if !slices.Equal(a.Rows[i], b.Rows[i]) {
			return fmt.Sprintf("row %d: %v against %v", i, formatRow(a.Rows[i]), formatRow(b.Rows[i]))
		}
	}
	switch {
	case a.Masked != b.Masked || a.MaskedSegmentStarts != b.MaskedSegmentStarts:
		return fmt.Sprintf("%d tokens without a loss, %d of them at the beginning of a segment, against %d and %d", a.Masked,
			a.MaskedSegmentStarts, b.Masked, b.MaskedSegmentStarts)
	case !slices.Equal(a.SourceLossTokens, b.SourceLossTokens):
		return fmt.Sprintf("%d tokens with a loss by source against %d", a.SourceLossTokens, b.SourceLossTokens)
	case !slices.Equal(a.Repeats, b.Repeats):
		return fmt.Sprintf("%d pieces that repeat tokens without their loss against %d, or other ones", len(a.Repeats),
			len(b.Repeats))
	}
	if a.Cursor != b.Cursor {
		return fmt.Sprintf("after document %d against %d", a.Cursor.Last(), b.Cursor.Last())
	}
	if a.LowWatermark != b.LowWatermark {
		return fmt.Sprintf("low watermark %d against %d", a.LowWatermark.Next(), b.LowWatermark.Next())
	}
	return ""
}

func formatStep(s *plan.Step) string {
	pieces := 0
	for _, r := range s.Rows {
		pieces += len(r)
	}
	return fmt.Sprintf("step %d, bucket %d, %d rows, %d pieces, after document %d", s.Index, s.Bucket, len(s.Rows), pieces,
		s.Cursor.Last())
}

// formatRow formats the first pieces of a row as doc:start:length.
func formatRow(pieces []packonline.Piece) []string {
	var out []string
	for i, p := range pieces {
		if i == 8 {
			return append(out, fmt.Sprintf("... %d more", len(pieces)-i))
		}
		out = append(out, fmt.Sprintf("%d:%d:%d", p.Doc, p.Start, p.Length))
	}
	return out
}
