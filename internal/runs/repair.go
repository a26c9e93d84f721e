package runs

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/doclog"
	"loaderd/stream/planlog"
)

// Damaged is a run whose plan may be damaged. Nobody appends to the plan until Close.
type Damaged struct {
	loader.Damage

	store *stream.Store
	from  loader.Edges
	lease *planlog.Lease
}

// Inspect takes the lead of a run for the holder, which says for others who has it, and looks at its plan. It changes nothing. Where the looking
// fails, what has been seen by then comes with the error, closed.
func Inspect(ctx context.Context, store *stream.Store, run string, holder planlog.Holder) (*Damaged, error) {
	d := &Damaged{store: store}
	if err := d.open(ctx, run); err != nil {
		return nil, fmt.Errorf("repair run %s: %w", run, err)
	}
	var err error
	if d.lease, err = planlog.TakeLease(ctx, store, run, holder); err != nil {
		return nil, err
	}
	if d.Damage, err = loader.Inspect(ctx, d.from.Plan, d.from.Checkpoints); err != nil {
		return d, errors.Join(fmt.Errorf("repair run %s: %w", run, err), d.Close())
	}
	return d, nil
}

// open opens what there is of the run.
func (d *Damaged) open(ctx context.Context, run string) (err error) {
	if d.from.Plan, err = planlog.OpenDamaged(ctx, d.store, run); err != nil {
		return err
	}
	if d.from.Documents, err = doclog.OpenReadOnly(ctx, d.store, doclog.Tokenizing{}); err != nil {
		return err
	}
	d.from.Checkpoints, err = planlog.OpenCheckpoints(ctx, d.store, run)
	return err
}

// Close gives the lead of the run back.
func (d *Damaged) Close() error { return d.lease.Close() }

// Copy copies what can be used of the plan, and the checkpoints that fit, into a new run. progress is told how many records are copied.
func (d *Damaged) Copy(ctx context.Context, name string, progress func(records uint64)) error {
	to, err := openNew(ctx, d.store, name)
	if err != nil {
		return err
	}
	if to.Checkpoints, err = planlog.OpenCheckpoints(ctx, d.store, name); err != nil {
		return err
	}
	to.Documents = d.from.Documents
	return d.Damage.Copy(ctx, d.from, name, to, progress)
}
