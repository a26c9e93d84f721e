package maintenance

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// CreateFork writes the header of a forked run and its inherited state into its empty plan log, after it has recorded
// the run's needs in LowWatermarks. A daemon that serves the run with the header's configuration continues from there.
func CreateFork(ctx context.Context, e backend.Backends, h planrecord.Header) error {
	if err := createFork(ctx, e, h); err != nil {
		return fmt.Errorf("begin run %s: %w", h.Run, err)
	}
	return nil
}

func createFork(ctx context.Context, e backend.Backends, h planrecord.Header) error {
	last, err := e.Plan.Last(ctx)
	if err != nil {
		return err
	}
	if last > 0 {
		return errors.New("there is a run of that name, with a plan: choose another name")
	}
	h.Keyed = e.Keyed
	var state [][]byte
	if h.Parent != nil {
		h, state = h.SplitState(e.Plan.MaxRecord())
	}
	record := planrecord.Encode(h)
	if most := e.Plan.MaxRecord(); len(record) > most {
		return fmt.Errorf("its header of %d bytes is larger than a record of %d: fork at a step with less in flight, or "+
			"raise the server's max_payload",
			len(record), most)
	}
	all := planview.NewStreams(e, nil)
	if err := all.PrepareRun(ctx, h); err != nil {
		return err
	}
	if err := e.Plan.Append(ctx, 0, append([][]byte{record}, state...)...); err != nil {
		return err
	}
	if _, err = planview.ClaimCheckpoints(ctx, e, planview.HeaderTerm, true); err == nil {
		_, err = all.ClaimLowWatermarks(ctx, planview.HeaderTerm, h)
	}
	return err
}
