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
	leads *planlog.Leads
	lead  loader.Lead // nil until it is taken
}

// Inspect takes the lead of a run for the holder, which says for others who has it, and looks at its plan: at the records before one, 0 for all.
// It changes nothing. Where the looking fails, what has been seen by then comes with the error, closed.
func Inspect(ctx context.Context, store *stream.Store, run string, holder planlog.Holder, before uint64) (*Damaged, error) {
	d := &Damaged{store: store}
	if err := d.open(ctx, run); err != nil {
		return nil, fmt.Errorf("repair run %s: %w", run, err)
	}
	var err error
	if d.leads, err = planlog.OpenLeads(ctx, store, run, holder); err != nil {
		return nil, err
	}
	if d.lead, err = d.leads.Seize(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.Damage, err = loader.Inspect(ctx, d.from.Plan, d.from.Checkpoints, before); err != nil {
		return d, errors.Join(fmt.Errorf("repair run %s: %w", run, err), d.Close())
	}
	return d, nil
}

// open opens what there is of the run.
func (d *Damaged) open(ctx context.Context, run string) (err error) {
	plan, err := planlog.OpenDamaged(ctx, d.store, run)
	if err != nil {
		return err
	}
	d.from.Plan = plan
	documents, err := doclog.OpenReadOnly(ctx, d.store, doclog.Tokenizing{})
	if err == nil {
		d.from.Documents = documents
	} else if !errors.Is(err, doclog.ErrNoStream) { // there is none where a run has several sources
		return err
	}
	d.from.Checkpoints, err = planlog.OpenCheckpoints(ctx, plan)
	return err
}

// Close gives the lead of the run back.
func (d *Damaged) Close() error {
	if d.lead == nil {
		return d.leads.Close()
	}
	return errors.Join(d.lead.Close(), d.leads.Close())
}

// Copy copies what can be used of the plan, and the checkpoints that fit, into a new run. progress is told how many records are copied.
func (d *Damaged) Copy(ctx context.Context, name string, progress func(records uint64)) error {
	if d.from.Documents == nil && !d.Config().Mixed() {
		return fmt.Errorf("repair run %s: stream %s: %w", d.Run, d.store.Config().Name, doclog.ErrNoStream)
	}
	to, err := openNew(ctx, d.store, name, d.Config())
	if err != nil {
		return err
	}
	to.Documents = d.from.Documents
	return d.Damage.Copy(ctx, d.from, name, to, progress)
}
