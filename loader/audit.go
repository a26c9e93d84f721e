package loader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/plan"
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
	// Controls are the seals and drains of the plan, and who asked for them.
	Controls []Recorded `json:"controls,omitempty"`
}

// Recorded is a control of a plan.
type Recorded struct {
	Record uint64 `json:"record"` // its position
	What   string `json:"what"`   // such as: drain behind document 120, asked for by alice
}

// Audit reads a run's documents and its plan again from their beginning, plans every step a second time without any checkpoint, and
// compares: rows, order, buckets and floors must be those of the log, and behind every step each token must be accounted for: tokens
// in = tokens out - repeated + dropped + waiting. The error names the first step that differs. The tokenizer is the one that docs makes
// tokens with: it must be the plan's. progress may be nil.
func Audit(ctx context.Context, docs Documents, tokenizer plan.Tokenizer, log PlanLog, progress func(Audited)) (Audited, error) {
	a := auditor{plan: &planReader{log: log}, progress: progress}
	h, err := a.plan.header(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: read the plan's header: %w", err)
	}
	if h.Algorithm != plan.AlgorithmVersion {
		return a.seen, fmt.Errorf("audit: %s: audit it with the binary that planned it", otherAlgorithm(h))
	}
	state, err := docs.State(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if err := errors.Join(madeOf(h.Run, h.Stream, state.Stream), sameTokenizer(h.Config.Tokenizer, tokenizer)); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if bad := h.Config.Validate(); len(bad) > 0 {
		return a.seen, fmt.Errorf("audit: the plan's header has a configuration that no run can have: %w", bad[0])
	}
	if a.applier, err = h.Begin(); err != nil {
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
	if err := end.within(source.Status().Last, h.Run); err != nil { // the source would wait for the missing documents for ever
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the scan of the log
	a.replay = replayFrom(ctx, log, 2, a.applier, h.Order())
	a.replay.read = func(at uint64, e plan.Entry) {
		if c, ok := e.(plan.Control); ok {
			a.seen.Controls = append(a.seen.Controls, Recorded{at, c.String()})
		}
	}
	if err := a.run(ctx, source); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	return a.seen, nil
}

type auditor struct {
	plan     *planReader
	applier  *plan.Applier
	replay   *replay
	seen     Audited
	progress func(Audited)
}

func (a *auditor) run(ctx context.Context, source Source) error {
	var docs []Document // of the last chunk, not planned yet
	for {
		if err := a.replay.prepare(); err != nil {
			return err
		}
		if err := a.applier.Settle(a.compare); err != nil {
			return err
		}
		switch {
		case a.applier.Ended && !a.replay.done:
			return fmt.Errorf("step %d follows in the log behind the end of the run", a.replay.next.Index)
		case a.replay.done && len(a.applier.Pending) == 0:
			return nil
		}
		if len(docs) == 0 {
			var err error
			if docs, err = source.Next(ctx); err != nil {
				return err
			}
		}
		ready, err := a.applier.Document(docs[0].arrival())
		if err != nil {
			return err
		}
		docs = docs[1:]
		if err := a.compare(ready); err != nil {
			return err
		}
	}
}

// compare compares steps with those of the log. Steps behind the log's end are not compared: the daemon had not stored them yet.
func (a *auditor) compare(ready plan.Ready) error {
	for i := range ready.Steps {
		if a.replay.done {
			return errors.Join(a.replay.early(&ready.Steps[i]), a.conserved())
		}
		if err := a.replay.match(&ready.Steps[i]); err != nil {
			return err
		}
		a.seen.Steps++
		if err := a.replay.prepare(); err != nil { // reads to the next step or to the end of the log, where the audit is done without another document
			return err
		}
	}
	return a.conserved()
}

// conserved checks that every token is accounted for.
func (a *auditor) conserved() error {
	planner, fed := a.applier.Planner, a.applier.Fed
	counts, packed := planner.Counts()
	a.seen.Documents, a.seen.Tokens, a.seen.Emitted = counts.Arrived, fed, counts.Tokens
	a.seen.Dropped, a.seen.Repeated = packed.Dropped+counts.LeftTokens, packed.Repeated
	a.seen.Padding = counts.Slots - counts.Tokens
	a.seen.Waiting = planner.WaitingTokens()
	a.seen.Ended = a.applier.End != nil
	if out := counts.Tokens - a.seen.Repeated + a.seen.Dropped + a.seen.Waiting; out != fed {
		return fmt.Errorf("behind document %s: %d tokens came in, and %d in steps - %d repeated + %d dropped + %d waiting are %d",
			planner.Cursor(), fed, counts.Tokens, a.seen.Repeated, a.seen.Dropped, a.seen.Waiting, out)
	}
	if a.progress != nil {
		a.progress(a.seen)
	}
	return nil
}
