package runadmin

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/backend"
	"loaderd/loader/maintenance"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/runstate"
)

// DamagedRun is a run whose plan may be damaged. No daemon appends to the plan until Close.
type DamagedRun struct {
	maintenance.Damage

	store    *stream.Store
	backends backend.Backends
	elector  *lease.Elector
	lease    backend.Lease // nil until it is acquired
}

// Inspect acquires the lease of a run and reads its plan: the records before one, or all of them if before is 0. It
// changes nothing. If reading fails, it returns what was read, closed, with the error.
func Inspect(ctx context.Context, store *stream.Store, run string, self lease.LeaderInfo,
	before uint64) (*DamagedRun, error) {
	d := &DamagedRun{store: store}
	if err := d.openBackends(ctx, run); err != nil {
		return nil, fmt.Errorf("repair run %s: %w", run, err)
	}
	var err error
	if d.elector, err = runstate.NewElector(ctx, store, run, self); err != nil {
		return nil, err
	}
	if d.lease, err = d.elector.TryAcquire(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.Damage, err = maintenance.Inspect(ctx, d.backends.Plan, d.backends.Checkpoints, before); err != nil {
		return d, errors.Join(fmt.Errorf("repair run %s: %w", run, err), d.Close())
	}
	return d, nil
}

// openBackends opens what exists of the run.
func (d *DamagedRun) openBackends(ctx context.Context, run string) (err error) {
	plan, err := planlog.OpenDamaged(ctx, d.store, run)
	if err != nil {
		return err
	}
	d.backends.Plan = plan
	d.backends.Checkpoints, err = checkpoints.Open(ctx, plan)
	return err
}

// Close releases the lease of the run.
func (d *DamagedRun) Close() error {
	if d.lease == nil {
		return d.elector.Close()
	}
	return errors.Join(d.lease.Close(), d.elector.Close())
}

// Copy copies the usable part of the plan, and the checkpoints that fit, into a new run. progress receives the
// number of copied records.
func (d *DamagedRun) Copy(ctx context.Context, name string, progress func(records uint64)) error {
	to, err := openNewRun(ctx, d.store, name, d.Config())
	if err != nil {
		return err
	}
	return d.Damage.Copy(ctx, d.backends, name, to, progress)
}
