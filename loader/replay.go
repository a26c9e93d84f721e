package loader

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/packonline"
)

// replay reads the plan log while an applier plans it again. Controls and other entries of the log go to the applier; the steps that it
// makes are compared with those of the log.
type replay struct {
	applier *planner.Applier
	records chan planRecord
	err     error      // why the scan stopped; read after records is closed
	next    *plan.Step // the step that the planner must make next
	done    bool       // no step follows in the log
	behind  plan.RecordReader
	nextAt  uint64                        // last record of next
	ended   uint64                        // position of the End; 0 without one
	read    func(at uint64, e plan.Entry) // gets every entry but steps; may be nil
	tail    plan.Tail                     // last record read
}

type planRecord struct {
	tail  plan.Tail
	entry plan.Entry
}

// replayFrom starts to read the log at position from: the applier covers all records before, behind which stand records of such an order.
func replayFrom(ctx context.Context, log backend.PlanLog, from uint64, a *planner.Applier, o plan.Validator) *replay {
	p := &replay{applier: a, records: make(chan planRecord, 16), behind: plan.RecordReader{Validator: o}}
	go func() {
		defer close(p.records)
		p.err = log.Scan(ctx, from, func(at uint64, b []byte) error {
			e, err := plan.DecodeRecord(b)
			if err != nil {
				return damaged(at, err)
			}
			select {
			case p.records <- planRecord{plan.TailOf(at, b), e}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return p
}

// prepare reads on to the next step. The applier takes every entry that stands before it, in the order of the log.
func (p *replay) prepare() error {
	for p.next == nil && !p.done {
		r, ok := <-p.records
		if !ok {
			p.done = true
			if cut := p.behind.Incomplete(); p.err == nil && cut != nil {
				return damaged(p.tail.Position+1, cut)
			}
			return p.err
		}
		p.tail = r.tail
		s, err := p.behind.Read(r.entry)
		if err != nil {
			return damaged(r.tail.Position, err)
		}
		if _, part := r.entry.(plan.StepPart); !part {
			p.takes(r.entry)
		}
		p.nextAt = r.tail.Position
		p.next = s
	}
	return nil
}

// takes hands an entry to the applier.
func (p *replay) takes(e plan.Entry) {
	p.applier.Record(e)
	if _, end := e.(plan.End); end {
		p.ended = p.tail.Position
	}
	if p.read != nil {
		p.read(p.tail.Position, e)
	}
}

// early refuses a step that the planner makes although the log says that the run has ended.
func (p *replay) early(s *plan.Step) error {
	if p.ended == 0 {
		return nil
	}
	return damaged(p.ended, fmt.Errorf("it ends the run with %d steps, and the documents up to the seal make a step %d", p.applier.End.Steps, s.Index))
}

// match compares a step that the planner made with the one in the log.
func (p *replay) match(s *plan.Step) error {
	defer func() { p.next = nil }()
	if d := difference(p.next, s); d != "" {
		return &fault.Error{Reason: fault.PlanMismatch, Message: fmt.Sprintf("re-planning gives another step %d than the plan log holds: %s\n  log:     %s\n  planned: %s",
			s.Index, d, showStep(p.next), showStep(s)),
			Do: fmt.Sprintf("the document stream, the tokenizer or the binary changed since the step was planned: restore them or start a new run; "+
				"if record %d of the plan is none that a daemon wrote: loaderd repair --before %d", p.nextAt, p.nextAt)}
	}
	return nil
}

func difference(a, b *plan.Step) string {
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
			return fmt.Sprintf("row %d: %v against %v", i, brief(a.Rows[i]), brief(b.Rows[i]))
		}
	}
	switch {
	case a.Masked != b.Masked || a.MaskedFirst != b.MaskedFirst:
		return fmt.Sprintf("%d tokens without a loss, %d of them at the beginning of a segment, against %d and %d", a.Masked, a.MaskedFirst, b.Masked, b.MaskedFirst)
	case !slices.Equal(a.Repeats, b.Repeats):
		return fmt.Sprintf("%d pieces that repeat tokens without their loss against %d, or other ones", len(a.Repeats), len(b.Repeats))
	}
	if a.Cursor != b.Cursor {
		return fmt.Sprintf("after document %d against %d", a.Cursor.Last(), b.Cursor.Last())
	}
	if a.Floor != b.Floor {
		return fmt.Sprintf("floor %d against %d", a.Floor.Next(), b.Floor.Next())
	}
	return ""
}

func showStep(s *plan.Step) string {
	pieces := 0
	for _, r := range s.Rows {
		pieces += len(r)
	}
	return fmt.Sprintf("step %d, bucket %d, %d rows, %d pieces, after document %d", s.Index, s.Bucket, len(s.Rows), pieces, s.Cursor.Last())
}

// brief shows the first pieces of a row as doc:start:length.
func brief(pieces []packonline.Piece) []string {
	var out []string
	for i, p := range pieces {
		if i == 8 {
			return append(out, fmt.Sprintf("... %d more", len(pieces)-i))
		}
		out = append(out, fmt.Sprintf("%d:%d:%d", p.Doc, p.Start, p.Length))
	}
	return out
}
