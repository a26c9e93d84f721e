package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/internal/feed"
	"loaderd/loader/internal/replay"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// AuditResult is the progress and result of an audit.
type AuditResult struct {
	Documents int64  `json:"documents"` // read from the streams, used or not
	Steps     uint64 `json:"steps"`     // planned again and equal to the log's
	Planned   uint64 `json:"planned"`   // in the log
	Tokens    int64  `json:"tokens"`    // of used documents
	Emitted   int64  `json:"emitted"`   // tokens in steps
	Waiting   int64  `json:"waiting"`   // tokens after the last step
	Dropped   int64  `json:"dropped"`
	Repeated  int64  `json:"repeated"`
	Padding   int64  `json:"padding"` // tokens in steps
	Ended     bool   `json:"ended"`
	// Controls are the seals and flushes of the plan, with their requesters.
	Controls []ControlRecord `json:"controls,omitempty"`
}

// ControlRecord is a control of a plan.
type ControlRecord struct {
	Record      uint64 `json:"record"` // its position
	Description string `json:"what"`   // for example: flush behind document 120, asked for by alice
}

// Audit reads a run's documents and its plan again from the beginning, without a checkpoint, plans every step again and
// compares. Rows, order, buckets and low watermarks must equal those of the log. After every step each token must be
// accounted for: tokens in = tokens out - repeated + dropped + waiting. The error names the first step that differs.
// tokenizer is the tokenizer that the document streams use, and must be the plan's. Audit uses the plan, the sources
// and the log of e. progress and e.Log may be nil.
func Audit(ctx context.Context, e backend.Backends, tokenizer runconfig.Tokenizer,
	progress func(AuditResult)) (AuditResult, error) {
	a := auditor{log: e.Log, plan: &planview.Reader{Log: e.Plan}, progress: progress}
	h, err := a.plan.Header(ctx)
	if err != nil {
		return a.result, fmt.Errorf("audit: read the plan's header: %w", err)
	}
	a.run = h.Run
	if h.Algorithm != planner.AlgorithmVersion {
		return a.result, fmt.Errorf("audit: %s: audit it with the binary that planned it", planview.AlgorithmMismatch(h))
	}
	if h.State, err = a.plan.ForkState(ctx, h); err != nil {
		return a.result, fmt.Errorf("audit: %w", err)
	}
	streams := planview.NewStreams(e, nil)
	if _, err := streams.CheckStreams(ctx, h); err != nil {
		return a.result, fmt.Errorf("audit: %w", err)
	}
	if err := planview.CheckTokenizer(h.Config.Tokenizer, tokenizer); err != nil {
		return a.result, fmt.Errorf("audit: %w", err)
	}
	if bad := h.Config.Validate(); len(bad) > 0 {
		return a.result, fmt.Errorf("audit: the plan's header has a configuration that no run can have: %w", bad[0])
	}
	if a.applier, err = planner.NewApplier(h); err != nil {
		return a.result, fmt.Errorf("audit: %w", err)
	}
	end, err := a.plan.ReadEnd(ctx)
	if err != nil {
		return a.result, fmt.Errorf("audit: read the end of the plan: %w", err)
	}
	a.result.Planned = end.Steps
	if err := a.replan(ctx, streams, func(ctx context.Context) *replay.Replay {
		return replay.Start(ctx, e.Plan, 2, a.applier, h.Validator())
	}); err != nil {
		return a.result, fmt.Errorf("audit: %w", err)
	}
	return a.result, nil
}

// replan plans the steps of the log again, from the applier's current state.
func (a *auditor) replan(ctx context.Context, streams *planview.Streams,
	from func(context.Context) *replay.Replay) error {
	streams.AddSources(a.applier.Planner.Infos())
	if err := planview.RestoreHints(ctx, a.applier.Planner, streams); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the scan of the log
	a.feeds = feed.New(ctx, a.run, streams, a.onOpenAttempt, func(int, document.Source) {})
	defer a.feeds.Close()
	a.replay = from(ctx)
	a.replay.OnEntry = func(at uint64, e planrecord.Entry) {
		if c, ok := e.(planrecord.Control); ok {
			a.result.Controls = append(a.result.Controls, ControlRecord{at, c.String()})
		}
	}
	return a.planSteps(ctx)
}

// onOpenAttempt logs why a stream cannot be opened.
func (a *auditor) onOpenAttempt(source string, err error) {
	if a.log != nil && err != nil {
		a.log.Warn("cannot open the document stream, trying again", "source", source, "error", err)
	}
}

type auditor struct {
	log      *slog.Logger // nil disables logging
	plan     *planview.Reader
	applier  *planner.Applier
	replay   *replay.Replay
	result   AuditResult
	progress func(AuditResult)
	run      string
	feeds    *feed.Set
}

// planSteps plans the steps of the log again.
func (a *auditor) planSteps(ctx context.Context) error {
	for {
		if err := a.replay.AdvanceToStep(); err != nil {
			return err
		}
		if err := a.applier.ApplyPending(a.compareSteps); err != nil {
			return err
		}
		switch {
		case a.applier.Ended && !a.replay.Done:
			return fmt.Errorf("step %d follows in the log behind the end of the run", a.replay.Next.Index)
		case a.replay.Done && len(a.applier.Pending) == 0:
			return nil
		}
		from, err := a.nextFeed(ctx)
		if err != nil {
			return err
		}
		if from == nil {
			return nil
		}
		d := from.NextDocument()
		ready, err := a.applier.AddDocument(d.Arrival())
		if err != nil {
			return err
		}
		from.MarkPlanned()
		if err := a.compareSteps(ready); err != nil {
			return err
		}
	}
}

// nextFeed waits until a feed holds the document that the planner needs, and returns the feed. It returns nil if the
// log has no further step and a flush waits for an arrival that the log does not reach. Then either another source was
// added and is read instead of the documents before the flush, or no weighted source has documents.
func (a *auditor) nextFeed(ctx context.Context) (from *feed.Feed, err error) {
	if from, err = a.feeds.Next(a.applier.Planner); err != nil {
		return nil, err
	}
	if from == nil && a.replay.Done {
		return nil, nil
	}
	if from == nil {
		return nil, errors.New("the log holds another step, and no source has a document left for it")
	}
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	for len(from.Documents) == 0 {
		select {
		case from.Pending = <-from.Queue():
		case <-from.PendingReady():
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
			source, sequence, _ := a.applier.Planner.NextDocument()
			s := from.Reader.Status()
			if m := a.applier.Planner.Mixture(); !s.DrySince.IsZero() && sequence > s.Last &&
				s.ConfirmedAt.Sub(s.DrySince) > feed.LostTimeout {
				if a.replay.Done && m.Len() > 1 {
					return nil, nil
				}
				return nil, feed.NewLostError(a.run, m.Name(source), sequence, s.Last)
			}
		}
		if err := from.Poll(); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// pollInterval is the interval of the check whether a document can still arrive.
const pollInterval = 200 * time.Millisecond

// compareSteps compares steps with those of the log. Steps after the log's end are not compared, because the daemon had
// not stored them yet.
func (a *auditor) compareSteps(ready planner.Ready) error {
	for i := range ready.Steps {
		if a.replay.Done {
			return errors.Join(a.replay.CheckNotEnded(&ready.Steps[i]), a.checkTokenCounts())
		}
		if err := a.replay.MatchStep(&ready.Steps[i]); err != nil {
			return err
		}
		a.result.Steps++
		// read up to the next step or the end of the log, where the audit finishes without another document
		if err := a.replay.AdvanceToStep(); err != nil {
			return err
		}
	}
	return a.checkTokenCounts()
}

// checkTokenCounts checks that every token is accounted for.
func (a *auditor) checkTokenCounts() error {
	planner, fed := a.applier.Planner, a.applier.UsedTokens
	counts, packed := planner.Counts()
	a.result.Documents, a.result.Tokens, a.result.Emitted = counts.Arrived, fed, counts.Tokens
	a.result.Dropped, a.result.Repeated = packed.Dropped+counts.LeftTokens, packed.Repeated
	a.result.Padding = counts.Slots - counts.Tokens
	a.result.Waiting = planner.BufferedTokens()
	a.result.Ended = a.applier.End != nil
	if out := counts.Tokens - a.result.Repeated + a.result.Dropped + a.result.Waiting; out != fed {
		return fmt.Errorf(
			"after document %s: %d tokens were read, but %d in steps - %d repeated + %d dropped + %d buffered are %d",
			planner.Cursor(), fed, counts.Tokens, a.result.Repeated, a.result.Dropped, a.result.Waiting, out)
	}
	if a.progress != nil {
		a.progress(a.result)
	}
	return nil
}
