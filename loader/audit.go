package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
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
// tokens with: it must be the plan's. Audit uses the plan, the documents and the log of e. progress and the log may
// be nil.
func Audit(ctx context.Context, e backend.Backends, tokenizer plan.Tokenizer, progress func(Audited)) (Audited, error) {
	a := auditor{log: e.Log, plan: &planReader{log: e.Plan}, progress: progress}
	h, err := a.plan.header(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: read the plan's header: %w", err)
	}
	a.run = h.Run
	if h.Algorithm != planner.AlgorithmVersion {
		return a.seen, fmt.Errorf("audit: %s: audit it with the binary that planned it", otherAlgorithm(h))
	}
	if h.State, err = a.plan.heritage(ctx, h); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	streams := newStreams(e, nil)
	if _, err := streams.same(ctx, h); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if err := sameTokenizer(h.Config.Tokenizer, tokenizer); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	if bad := h.Config.Validate(); len(bad) > 0 {
		return a.seen, fmt.Errorf("audit: the plan's header has a configuration that no run can have: %w", bad[0])
	}
	if a.applier, err = planner.NewApplier(h); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	end, err := a.plan.end(ctx)
	if err != nil {
		return a.seen, fmt.Errorf("audit: read the end of the plan: %w", err)
	}
	a.seen.Planned = end.steps
	if err := a.again(ctx, streams, func(ctx context.Context) *replay { return replayFrom(ctx, e.Plan, 2, a.applier, h.Validator()) }); err != nil {
		return a.seen, fmt.Errorf("audit: %w", err)
	}
	return a.seen, nil
}

// again plans what the log holds a second time, from where the applier is.
func (a *auditor) again(ctx context.Context, streams *streams, from func(context.Context) *replay) error {
	streams.learn(a.applier.Planner.Infos())
	if err := readTraits(ctx, a.applier.Planner, streams); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	group, reading := errgroup.WithContext(ctx)
	defer group.Wait() // what failed there has failed a run before
	defer cancel()     // ends the readers, and the scan of the log
	a.feeds = newFeeds(reading, a.run, streams, group, a.onOpenAttempt, func(int, document.Source) {})
	a.replay = from(ctx)
	a.replay.read = func(at uint64, e plan.Entry) {
		if c, ok := e.(plan.Control); ok {
			a.seen.Controls = append(a.seen.Controls, Recorded{at, c.String()})
		}
	}
	if err := a.plans(reading); err != nil {
		cancel()
		if failed := group.Wait(); failed != nil && errors.Is(err, context.Canceled) { // why reading ended
			err = failed
		}
		return err
	}
	return nil
}

// onOpenAttempt logs why a stream cannot be opened.
func (a *auditor) onOpenAttempt(source string, err error) {
	if a.log != nil && err != nil {
		a.log.Warn("cannot open the document stream, trying again", "source", source, "error", err)
	}
}

type auditor struct {
	log      *slog.Logger // nil: nothing is logged
	plan     *planReader
	applier  *planner.Applier
	replay   *replay
	seen     Audited
	progress func(Audited)
	run      string
	feeds    *feeds
}

// plans plans what the log holds a second time.
func (a *auditor) plans(ctx context.Context) error {
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
		from, err := a.next(ctx)
		if err != nil {
			return err
		}
		if from == nil {
			return nil
		}
		d := from.take()
		ready, err := a.applier.Document(d.Arrival())
		if err != nil {
			return err
		}
		from.planned()
		if err := a.compare(ready); err != nil {
			return err
		}
	}
}

// next returns the feed that holds the document which the planner wants. It is nil where the log has no further step and a drain waits for a document of several
// sources: one that stood behind documents which were there, until another source came and was read in their place.
func (a *auditor) next(ctx context.Context) (from *feed, err error) {
	if from, err = a.feeds.next(a.applier.Planner); err != nil {
		return nil, err
	}
	if from == nil {
		return nil, errors.New("the log holds another step, and no source has a document left for it")
	}
	look := time.NewTicker(statsInterval)
	defer look.Stop()
	for len(from.held) == 0 {
		select {
		case from.held = <-from.chunks:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
			source, sequence, _ := a.applier.Planner.Wants()
			s := from.reader.Status()
			if m := a.applier.Planner.Mixture(); !s.DrySince.IsZero() && sequence > s.Last && time.Since(s.DrySince) > lostAfter {
				if a.replay.done && m.Len() > 1 {
					return nil, nil
				}
				return nil, lostOfSource(a.run, m.Name(source), sequence, s.Last)
			}
		}
	}
	return from, nil
}

// compare compares steps with those of the log. Steps behind the log's end are not compared: the daemon had not stored them yet.
func (a *auditor) compare(ready planner.Ready) error {
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
