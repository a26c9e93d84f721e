package loader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/plan"
)

// clear makes everything ready for the first record of a run's plan: checkpoints that an earlier run of the same name left are forgotten,
// nobody purges from here on what the run needs, and the documents from its first one on are there.
func (e Edges) clear(ctx context.Context, h plan.Header) error {
	left, err := e.checkpoints(ctx)
	if err == nil {
		err = e.forget(ctx, left)
	}
	if err == nil && e.Floors != nil {
		err = e.Floors.Need(ctx, h.Start)
	}
	if err != nil {
		return err
	}
	now, err := e.Documents.State(ctx)
	if err == nil {
		err = madeOf(h, now.Stream)
	}
	if err == nil && now.First > h.Start {
		err = &Error{Reason: DocumentLost, Message: fmt.Sprintf("document %d, where the run was to begin, is purged", h.Start), Do: "start it again"}
	}
	return err
}

// Begin writes the header of a forked run into its empty plan log, after it has told Floors what the run needs. A daemon that serves
// the run with the header's configuration goes on from there.
func Begin(ctx context.Context, e Edges, h plan.Header) error {
	if err := e.begin(ctx, h); err != nil {
		return fmt.Errorf("begin run %s: %w", h.Run, err)
	}
	return nil
}

func (e Edges) begin(ctx context.Context, h plan.Header) error {
	last, err := e.Plan.Last(ctx)
	if err != nil {
		return err
	}
	if last > 0 {
		return errors.New("there is a run of that name, with a plan: choose another name")
	}
	record := plan.EncodeRecord(h)
	if most := e.Plan.MaxRecord(); len(record) > most {
		return fmt.Errorf("its header of %d bytes is larger than a record of %d: fork at a step with less in flight, or raise the server's max_payload",
			len(record), most)
	}
	if err := e.clear(ctx, h); err != nil {
		return err
	}
	return e.Plan.Append(ctx, 0, record)
}
