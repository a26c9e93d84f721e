package loader

import (
	"context"
	"fmt"
	"slices"

	"loaderd/packonline"
)

// replay walks over the part of the plan log that exists while the planner makes it again. Recovery is the same code as normal running:
// the loop feeds the planner, and what comes out is compared here instead of appended.
type replay struct {
	records chan planRecord
	err     error // why the scan stopped; read after records is closed
	next    *Step // the step that the planner must make next
	done    bool  // no step follows in the log
	begun   joiner
	order   order
	tail    logTail // last record read
}

type planRecord struct {
	tail logTail
	rec  Record
}

// replayFrom starts to read the log at a position, before which it has so many steps.
func replayFrom(ctx context.Context, log PlanLog, from, steps uint64) *replay {
	p := &replay{records: make(chan planRecord, 16), order: order{steps: steps}}
	go func() {
		defer close(p.records)
		p.err = log.Scan(ctx, from, func(at uint64, b []byte) error {
			rec, err := DecodeRecord(b)
			if err != nil {
				return damaged(at, err)
			}
			select {
			case p.records <- planRecord{tailOf(at, b), rec}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return p
}

// prepare reads on to the next step. Records between steps go to control in the order of the log.
func (p *replay) prepare(control func(rec Record)) error {
	for p.next == nil && !p.done {
		r, ok := <-p.records
		if !ok {
			p.done = true
			if p.err == nil && p.begun.step != nil {
				return damaged(p.tail.position+1, fmt.Errorf("step %d is cut short at the end of the log", p.begun.step.Index))
			}
			return p.err
		}
		p.tail = r.tail
		if r.rec.Kind != kindStep {
			if p.begun.step != nil {
				return damaged(r.tail.position, fmt.Errorf("step %d is cut short before it", p.begun.step.Index))
			}
			if err := p.order.between(r.rec); err != nil {
				return damaged(r.tail.position, err)
			}
			control(r.rec)
			continue
		}
		s, err := p.begun.add(r.rec)
		if err == nil && s != nil {
			err = p.order.step(s)
		}
		if err != nil {
			return damaged(r.tail.position, err)
		}
		p.next = s
	}
	return nil
}

// match compares a step that the planner made with the one in the log.
func (p *replay) match(s *Step) error {
	defer func() { p.next = nil }()
	if d := difference(p.next, s); d != "" {
		return &Error{Reason: PlanMismatch, Message: fmt.Sprintf("re-planning gives another step %d than the plan log holds: %s\n  log:     %s\n  planned: %s",
			s.Index, d, describe(p.next), describe(s)),
			Do: "the document stream, the tokenizer or the binary changed since the step was planned; restore them or start a new run"}
	}
	return nil
}

func difference(a, b *Step) string {
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
	if a.Cursor != b.Cursor {
		return fmt.Sprintf("after document %d against %d", a.Cursor, b.Cursor)
	}
	if a.Floor != b.Floor {
		return fmt.Sprintf("floor %d against %d", a.Floor, b.Floor)
	}
	return ""
}

func describe(s *Step) string {
	pieces := 0
	for _, r := range s.Rows {
		pieces += len(r)
	}
	return fmt.Sprintf("step %d, bucket %d, %d rows, %d pieces, after document %d", s.Index, s.Bucket, len(s.Rows), pieces, s.Cursor)
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
