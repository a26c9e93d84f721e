package loader

import (
	"context"
	"errors"
	"fmt"
)

// Audited is what an audit has seen so far.
type Audited struct {
	Documents int64  `json:"documents"` // of the stream, used or not
	Steps     uint64 `json:"steps"`     // planned again, equal to the log's
	Planned   uint64 `json:"planned"`   // in the log
	Tokens    int64  `json:"tokens"`    // of used documents
	Emitted   int64  `json:"emitted"`   // tokens in steps
	Waiting   int64  `json:"waiting"`   // tokens behind the last step
	Dropped   int64  `json:"dropped"`
	Repeated  int64  `json:"repeated"`
	Padding   int64  `json:"padding"` // tokens in steps
	Ended     bool   `json:"ended"`
}

// Audit reads a run's documents and its plan again from their beginning, plans every step a second time without any checkpoint, and
// compares: rows, order, buckets and floors must be those of the log, and behind every step each token must be accounted for: tokens
// in = tokens out - repeated + dropped + waiting. The error names the first step that differs. The tokenizer is the one that docs makes
// tokens with: it must be the plan's. progress may be nil.
func Audit(ctx context.Context, docs Documents, tokenizer Tokenizer, plan PlanLog, progress func(Audited)) (Audited, error) {
	a := auditor{plan: &planReader{log: plan}, progress: progress}
	h, err := a.plan.header(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: read the plan's header: %w", err)
	}
	if h.Algorithm != AlgorithmVersion {
		return a.seen, fmt.Errorf("audit: %s: audit it with the binary that planned it", h.otherAlgorithm())
	}
	state, err := docs.State(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if err := errors.Join(h.madeOf(state.Stream), h.Config.Tokenizer.same(tokenizer)); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if bad := h.Config.Validate(); len(bad) > 0 {
		return a.seen, fmt.Errorf("audit: the plan's header has a configuration that no run can have: %w", bad[0])
	}
	if a.planner, err = h.newPlanner(); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	end, err := a.plan.end(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: read the end of the plan: %w", err)
	}
	a.seen.Planned = end.steps
	source, err := docs.Read(ctx, h.Start)
	if err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	defer source.Close()
	if err := end.within(source.Status().Last, h.Run); err != nil { // the source would wait for them
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the scan of the log
	a.replay = replayFrom(ctx, plan, 2, 0)
	if err := a.run(ctx, source); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	return a.seen, nil
}

type auditor struct {
	plan     *planReader
	planner  *Planner
	replay   *replay
	pending  []control
	fed      int64 // tokens of used documents
	seen     Audited
	progress func(Audited)
}

func (a *auditor) run(ctx context.Context, source Source) error {
	for {
		if err := a.replay.prepare(a.control); err != nil {
			return err
		}
		if sealed, err := a.due(); err != nil {
			return err
		} else if sealed {
			return a.end()
		}
		if a.replay.done && len(a.pending) == 0 {
			return nil
		}
		d, err := source.Next(ctx)
		if err != nil {
			return err
		}
		before, _ := a.planner.Counts()
		steps, err := a.planner.Add(arrival(d))
		if err != nil {
			return err
		}
		after, _ := a.planner.Counts()
		if d.Skip == "" && after.Duplicates == before.Duplicates {
			a.fed += int64(a.planner.parent.rest(d.Sequence, int32(len(d.Tokens))))
		}
		if err := a.match(steps); err != nil {
			return err
		}
	}
}

// end checks that the log ends where the run does.
func (a *auditor) end() error {
	if err := a.replay.prepare(a.control); err != nil {
		return err
	}
	if !a.replay.done {
		return fmt.Errorf("step %d follows in the log behind the end of the run", a.replay.next.Index)
	}
	return nil
}

// control notes a recorded control.
func (a *auditor) control(rec Record) {
	switch rec.Kind {
	case kindSeal, kindDrain:
		a.pending = append(a.pending, control{rec.Kind, rec.At})
	case kindEnd:
		a.seen.Ended = true
	}
}

// due applies the controls behind the document at the cursor.
func (a *auditor) due() (sealed bool, err error) {
	for len(a.pending) > 0 && a.pending[0].at <= a.planner.Cursor() {
		c := a.pending[0]
		a.pending = a.pending[1:]
		if c.kind == kindSeal {
			return true, a.match(a.planner.Seal())
		}
		if err := a.match(a.planner.Drain()); err != nil {
			return false, err
		}
	}
	return false, nil
}

// match compares steps with the log's. Behind the log's end there is nothing to compare with: the daemon had not stored them yet.
func (a *auditor) match(steps []Step) error {
	for i := range steps {
		if err := a.replay.prepare(a.control); err != nil {
			return err
		}
		if a.replay.done {
			return a.conserved()
		}
		if err := a.replay.match(&steps[i]); err != nil {
			return err
		}
		a.seen.Steps++
	}
	if err := a.replay.prepare(a.control); err != nil { // the end of the log: behind it no document need follow
		return err
	}
	return a.conserved()
}

// conserved checks that every token is accounted for.
func (a *auditor) conserved() error {
	counts, packed := a.planner.Counts()
	a.seen.Documents, a.seen.Tokens, a.seen.Emitted = counts.Arrived, a.fed, counts.Tokens
	a.seen.Dropped, a.seen.Repeated = packed.Dropped+counts.LeftTokens, packed.Repeated
	a.seen.Padding = counts.Slots - counts.Tokens
	a.seen.Waiting = a.planner.waitingTokens()
	if out := counts.Tokens - a.seen.Repeated + a.seen.Dropped + a.seen.Waiting; out != a.fed {
		return fmt.Errorf("behind document %d: %d tokens came in, and %d in steps - %d repeated + %d dropped + %d waiting are %d",
			a.planner.Cursor(), a.fed, counts.Tokens, a.seen.Repeated, a.seen.Dropped, a.seen.Waiting, out)
	}
	if a.progress != nil {
		a.progress(a.seen)
	}
	return nil
}
