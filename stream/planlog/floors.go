package planlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
	"loaderd/stream"
)

// floorsBucket is the key-value bucket with the floors of all runs: one cell for each document stream. Its key is STREAM/CREATED, where
// CREATED is when the document stream was created, in nanoseconds.
const floorsBucket = "loaderd_floors"

// Floors is one run's floor among those of all runs that read the document stream. It implements loader.Floors.
//
// The cell says what each run needs, and up to where documents are given up. That only ever rises, to the least floor of all runs, in the
// same change in which one of them is raised; a run that begins adds its floor to the same cell and sees what is given up. So whoever purges
// what is given up removes nothing that anybody needs, however late. What a crash leaves, and what follows:
//
//	behind Begin                a floor of a run that has not begun    it counts for beginPatience; a start of the run goes on from there
//	behind the first record     a run that needs its documents         its floor counts until its plan is deleted
//	Release: cell               documents that are given up            the next Release or Begin, of any run, removes them
//	Release: some purged        the documents of a beginning removed   the next one asks the stream where it begins, and goes on there
//	before Ends                 a sealed run without an end            only Runs does not know where it ends; the next start records it
type Floors struct {
	plan     *Log
	store    *stream.Store // the floors'
	docs     *stream.Store // the documents'
	stream   jetstream.Stream
	cell     *cell[floors]
	readers  *cell[readers]
	intake   *cell[intake] // nil before the first Report
	patience patience
}

// floors are those of all runs over a document stream.
type floors struct {
	// Purged is the first document that is not given up.
	Purged uint64           `json:"purged"`
	Runs   map[string]floor `json:"runs"`
}

// maxSequence is behind every document that a stream will ever hold.
const maxSequence = 1 << 53

func (f floors) check() error {
	if f.Purged > maxSequence {
		return fmt.Errorf("documents below %d are given up", f.Purged)
	}
	for run, needs := range f.Runs {
		if err := stream.ValidRun(run); err != nil {
			return err
		}
		if needs.From > maxSequence || needs.End > maxSequence {
			return fmt.Errorf("run %s needs documents from %d to %d", run, needs.From, needs.End)
		}
	}
	return nil
}

// floor is what a run needs.
type floor struct {
	fence
	From   uint64 `json:"from"` // first document
	Begun  uint64 `json:"begun"`
	Sealed bool   `json:"sealed"`
	End    uint64 `json:"end"` // of a sealed run, the last document that it reads
}

var _ loader.Floors = (*Floors)(nil)

// OpenFloors opens the floors of the document stream for a plan's run. It creates the bucket when it is absent.
func OpenFloors(ctx context.Context, plan *Log) (*Floors, error) {
	return OpenFloorsOf(ctx, plan, plan.docs)
}

// OpenFloorsOf is OpenFloors for the document stream of a source of the run.
func OpenFloorsOf(ctx context.Context, plan *Log, documents *stream.Store) (*Floors, error) {
	f := &Floors{plan: plan, store: plan.store, docs: documents}
	var err error
	if f.stream, err = f.docs.EnsureDocuments(ctx); err != nil {
		return nil, err
	}
	info := f.stream.CachedInfo()
	if f.readers, err = openReaders(ctx, f.docs, floorsKey(info)); err != nil {
		return nil, err
	}
	f.cell, err = openCell[floors](ctx, f.store, floorsBucket, "first document that each run still needs, and the last that it reads",
		floorsKey(info), "the floors of stream "+info.Config.Name)
	return f, err
}

func floorsKey(documents *jetstream.StreamInfo) string {
	return fmt.Sprintf("%s/%d", documents.Config.Name, stream.Created(documents).UnixNano())
}

// change changes the run's own floor for a term, and what follows from it.
func (f *Floors) change(ctx context.Context, term uint64, change func(all *floors, own floor) floor) (floors, error) {
	by := f.plan.fence(term)
	return f.cell.update(ctx, func(all floors) (floors, error) {
		own := all.Runs[f.plan.run]
		if err := by.passes(own.fence); err != nil {
			return all, err
		}
		if own.Plan != by.Plan {
			own = floor{}
		}
		if all.Runs == nil {
			all.Runs = map[string]floor{}
		}
		own.fence = by
		all.Runs[f.plan.run] = own
		all.Runs[f.plan.run] = change(&all, own)
		return all, nil
	})
}

// Begin records, before the first record of the plan, that the run will need the documents from sequence from on. It returns the first
// document that is not given up.
func (f *Floors) Begin(ctx context.Context, from uint64) (uint64, error) {
	all, err := f.change(ctx, 0, func(_ *floors, own floor) floor {
		own.From = from
		own.Begun++
		return own
	})
	if err != nil {
		return 0, err
	}
	if all.Purged > from { // what is given up may be there still, and the next start must not begin there again
		if _, err := f.purge(ctx, all.Purged); err != nil {
			return 0, err
		}
	}
	return all.Purged, nil
}

// Claim makes a term the one that speaks for the run. Until it says otherwise it needs the documents from sequence from on, as far as they are
// not given up. It returns the first of them.
func (f *Floors) Claim(ctx context.Context, term, from uint64) (uint64, error) {
	all, err := f.change(ctx, term, func(all *floors, own floor) floor {
		own.From = max(from, all.Purged)
		return own
	})
	return all.Runs[f.plan.run].From, err
}

// Ends records that the run reads no document behind sequence at.
func (f *Floors) Ends(ctx context.Context, term, at uint64) error {
	_, err := f.change(ctx, term, func(_ *floors, own floor) floor {
		own.Sealed, own.End = true, at
		return own
	})
	return err
}

// Release gives up the documents below sequence from, removes those that no run needs, and returns the first sequence left. Those of runs
// whose plan is gone do not count.
func (f *Floors) Release(ctx context.Context, term, from uint64) (first uint64, err error) {
	given, err := f.giveUp(ctx, term, from)
	if err != nil {
		return 0, err
	}
	return f.purge(ctx, given)
}

// giveUp raises the run's floor and, with it, what all have given up, which it returns.
func (f *Floors) giveUp(ctx context.Context, term, from uint64) (uint64, error) {
	before, _, err := f.cell.read(ctx)
	if err != nil {
		return 0, err
	}
	gone, err := f.gone(ctx, before.Value.Runs)
	if err != nil {
		return 0, err
	}
	all, err := f.change(ctx, term, func(all *floors, own floor) floor {
		own.From = max(own.From, from)
		least := own.From
		for run, floor := range all.Runs {
			switch {
			case run == f.plan.run:
			case gone[run] == floor: // as it was looked at
				delete(all.Runs, run)
			default:
				least = min(least, floor.From)
			}
		}
		all.Purged = max(all.Purged, least)
		return own
	})
	return all.Purged, err
}

// purge removes the documents below a sequence that is given up, and returns the first one left.
func (f *Floors) purge(ctx context.Context, to uint64) (first uint64, err error) {
	err = f.docs.Retry(ctx, "purge documents", func(ctx context.Context) error {
		info, err := f.stream.Info(ctx)
		if err != nil {
			return err
		}
		if now := floorsKey(info); now != f.cell.key {
			return fmt.Errorf("stream %s was made again: it is %s now, not %s", info.Config.Name, now, f.cell.key)
		}
		first = info.State.FirstSeq
		if to <= first {
			return nil
		}
		if to > info.State.LastSeq+1 && !f.store.Clustered() { // on a cluster the end may be an old one
			return fmt.Errorf("documents up to %d are given up by what key %s of bucket %s says, and stream %s ends at %d: none of the daemons wrote that",
				to-1, f.cell.key, floorsBucket, info.Config.Name, info.State.LastSeq)
		}
		if err := f.stream.Purge(ctx, jetstream.WithPurgeSequence(to)); err != nil {
			return err
		}
		first = min(to, info.State.LastSeq+1)
		return nil
	})
	return first, err
}

// gone returns the floors of others that do not count any more: their plan is gone, or was never begun.
func (f *Floors) gone(ctx context.Context, runs map[string]floor) (map[string]floor, error) {
	out := map[string]floor{}
	for run, floor := range runs {
		if run == f.plan.run {
			continue
		}
		absent, err := f.absence(ctx, run, floor.fence)
		if err != nil {
			return nil, err
		}
		if f.patience.over(run, floor, absent) {
			out[run] = floor
		}
	}
	return out, nil
}
