// Package retention keeps the low watermark of each run over a document stream, purges documents below all of them, and
// reports to producers which runs read the stream.
package retention

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/planlog"
)

// Bucket is the key-value bucket with the low watermarks of all runs: one value for each document stream. Its key is
// STREAM/CREATED, where CREATED is when the document stream was created, in nanoseconds.
const Bucket = "loaderd_low_watermarks"

// LowWatermarks is the low watermark of one run among those of all runs that read the document stream. It implements
// backend.LowWatermarks.
//
// The shared value has the low watermark of each run, and the sequence below which documents may be purged. That
// sequence only rises, to the lowest watermark of all runs, in the same change in which one of them is raised. A run
// that begins adds its watermark to the same value and reads that sequence. So a purge below it removes no document
// that a run needs, however late the purge is. After a crash:
//
//	after Begin             a watermark of a run without a plan  counts for beginTimeout; the next start continues there
//	after the first record  a run that needs its documents       its watermark counts until its plan is deleted
//	Release: value          documents that may be purged         the next Release or Begin, of any run, purges them
//	Release: purge begun    some of these documents are purged   the next one continues at the stream's first sequence
//	before Ends             a sealed run without an end          only Runs lacks its end; the next start records it
type LowWatermarks struct {
	plan     *planlog.Log
	store    *stream.Store // of the value
	docs     *stream.Store // of the documents
	stream   jetstream.Stream
	value    *casvalue.Value[watermarks]
	readers  *casvalue.Value[readers]
	intake   *casvalue.Value[intake] // nil before the first Report
	absences absences
}

// watermarks holds the low watermarks of all runs over a document stream.
type watermarks struct {
	// Purged is the first document that may not be purged.
	Purged uint64               `json:"purged"`
	Runs   map[string]watermark `json:"runs"`
}

// maxSequence is above every sequence of a document stream.
const maxSequence = 1 << 53

// Check implements casvalue.Checked.
func (f watermarks) Check() error {
	if f.Purged > maxSequence {
		return fmt.Errorf("documents below %d may be purged", f.Purged)
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

// watermark is the low watermark of a run.
type watermark struct {
	casvalue.Fence
	From   uint64 `json:"from"` // first document
	Begun  uint64 `json:"begun"`
	Sealed bool   `json:"sealed"`
	End    uint64 `json:"end"` // of a sealed run, the last document that it reads
}

var _ backend.LowWatermarks = (*LowWatermarks)(nil)

// Open opens the low watermark of a plan's run over a document stream. It creates the bucket if it does not exist.
func Open(ctx context.Context, plan *planlog.Log, documents *stream.Store) (*LowWatermarks, error) {
	f := &LowWatermarks{plan: plan, store: plan.Store(), docs: documents}
	var err error
	if f.stream, err = f.docs.EnsureDocuments(ctx); err != nil {
		return nil, err
	}
	info := f.stream.CachedInfo()
	if f.readers, err = openReaders(ctx, f.docs, valueKey(info)); err != nil {
		return nil, err
	}
	f.value, err = openValue(ctx, f.store, valueKey(info), "the low watermarks of stream "+info.Config.Name)
	return f, err
}

func openValue(ctx context.Context, own *stream.Store, key, what string) (*casvalue.Value[watermarks], error) {
	return casvalue.Open[watermarks](ctx, own, Bucket,
		"first document that each run still needs, and the last that it reads", key, what)
}

func valueKey(documents *jetstream.StreamInfo) string {
	return fmt.Sprintf("%s/%d", documents.Config.Name, stream.Created(documents).UnixNano())
}

// updateWatermark changes the run's watermark for a term.
func (f *LowWatermarks) updateWatermark(ctx context.Context, term uint64,
	change func(all *watermarks, own watermark) watermark) (watermarks, error) {
	by := f.plan.Fence(term)
	return f.value.Update(ctx, func(all watermarks) (watermarks, error) {
		own := all.Runs[f.plan.Run()]
		if err := by.Check(own.Fence); err != nil {
			return all, err
		}
		if own.Plan != by.Plan {
			own = watermark{}
		}
		if all.Runs == nil {
			all.Runs = map[string]watermark{}
		}
		own.Fence = by
		all.Runs[f.plan.Run()] = own
		all.Runs[f.plan.Run()] = change(&all, own)
		return all, nil
	})
}

// Register records, before the first record of the plan, that the run will need the documents from sequence from on. It
// returns the first document that may not be purged.
func (f *LowWatermarks) Register(ctx context.Context, from uint64) (uint64, error) {
	all, err := f.updateWatermark(ctx, 0, func(_ *watermarks, own watermark) watermark {
		own.From = from
		own.Begun++
		return own
	})
	if err != nil {
		return 0, err
	}
	if all.Purged > from { // the purge may not be complete, and the next start must not begin with these documents
		if _, err := f.purgeBelow(ctx, all.Purged); err != nil {
			return 0, err
		}
	}
	return all.Purged, nil
}

// Claim makes a term the one that may change the run's watermark. The watermark becomes from, or the first document
// that may not be purged, if that is later. Claim returns it.
func (f *LowWatermarks) Claim(ctx context.Context, term, from uint64) (uint64, error) {
	all, err := f.updateWatermark(ctx, term, func(all *watermarks, own watermark) watermark {
		own.From = max(from, all.Purged)
		return own
	})
	return all.Runs[f.plan.Run()].From, err
}

// RecordEnd records that the run reads no document after sequence at.
func (f *LowWatermarks) RecordEnd(ctx context.Context, term, at uint64) error {
	_, err := f.updateWatermark(ctx, term, func(_ *watermarks, own watermark) watermark {
		own.Sealed, own.End = true, at
		return own
	})
	return err
}

// Advance raises the run's watermark to sequence from, purges the documents that no run needs, and returns the first
// sequence left. Watermarks of runs whose plan is deleted do not count.
func (f *LowWatermarks) Advance(ctx context.Context, term, from uint64) (first uint64, err error) {
	purgeable, err := f.raiseWatermark(ctx, term, from)
	if err != nil {
		return 0, err
	}
	return f.purgeBelow(ctx, purgeable)
}

// raiseWatermark raises the run's watermark and the sequence below which documents may be purged, which it returns.
func (f *LowWatermarks) raiseWatermark(ctx context.Context, term, from uint64) (uint64, error) {
	before, _, err := f.value.Read(ctx)
	if err != nil {
		return 0, err
	}
	deleted, err := f.expiredWatermarks(ctx, before.Value.Runs)
	if err != nil {
		return 0, err
	}
	all, err := f.updateWatermark(ctx, term, func(all *watermarks, own watermark) watermark {
		own.From = max(own.From, from)
		least := own.From
		for run, other := range all.Runs {
			switch {
			case run == f.plan.Run():
			case deleted[run] == other: // unchanged since then
				delete(all.Runs, run)
			default:
				least = min(least, other.From)
			}
		}
		all.Purged = max(all.Purged, least)
		return own
	})
	return all.Purged, err
}

// purgeBelow removes the documents below a sequence, and returns the first one left.
func (f *LowWatermarks) purgeBelow(ctx context.Context, to uint64) (first uint64, err error) {
	err = f.docs.Retry(ctx, "purge documents", func(ctx context.Context) error {
		info, err := f.stream.Info(ctx)
		if err != nil {
			return err
		}
		if now := valueKey(info); now != f.value.Key() {
			return fmt.Errorf("stream %s was created again: it is %s now, not %s", info.Config.Name, now, f.value.Key())
		}
		first = info.State.FirstSeq
		if to <= first {
			return nil
		}
		if to > info.State.LastSeq+1 && !f.store.Clustered() { // in a cluster the end may be stale
			return fmt.Errorf("key %[2]s of bucket %[3]s lets documents up to %[1]d be purged, and stream %[4]s ends at "+
				"%[5]d: no daemon wrote that",
				to-1, f.value.Key(), Bucket, info.Config.Name, info.State.LastSeq)
		}
		if err := f.stream.Purge(ctx, jetstream.WithPurgeSequence(to)); err != nil {
			return err
		}
		first = min(to, info.State.LastSeq+1)
		return nil
	})
	return first, err
}

// expiredWatermarks returns the watermarks of other runs that no longer count, because their plan is deleted or was
// never begun.
func (f *LowWatermarks) expiredWatermarks(ctx context.Context,
	runs map[string]watermark) (map[string]watermark, error) {
	out := map[string]watermark{}
	for run, other := range runs {
		if run == f.plan.Run() {
			continue
		}
		absent, err := f.checkAbsence(ctx, run, other.Fence)
		if err != nil {
			return nil, err
		}
		if f.absences.hasTimedOut(run, other, absent) {
			out[run] = other
		}
	}
	return out, nil
}
