package loader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/plan"
)

// clear makes everything ready for the first record of a run's plan: nobody gives up from here on what the run needs, and the documents from
// its first one on are there. Nothing that may be another's is touched: whether the run has no plan yet, the append of the record will say.
//
//	step                        a crash leaves                             and the next start
//	the floor is recorded       documents that nobody may purge            goes on from there; without one they are free after a while
//	the header is appended      a run without a term, checkpoints of an    finds its plan, and none of those: they are of another plan
//	                            earlier plan of that name
//	the term is appended        a term that has claimed nothing            appends another one
//	its owner claims            checkpoints of the earlier plan to delete  deletes them
func (e Edges) clear(ctx context.Context, h plan.Header) error {
	var left uint64 // the first document that is not given up
	if e.Floors != nil {
		var err error
		if left, err = e.Floors.Begin(ctx, h.Start); err != nil {
			return err
		}
	}
	now, err := e.Documents.State(ctx)
	if err == nil {
		err = madeOf(h, now.Stream)
	}
	if err == nil && max(now.First, left) > h.Start {
		err = &Error{Reason: DocumentLost, Message: fmt.Sprintf("document %d, where the run was to begin, is purged", h.Start), Do: "start it again"}
	}
	return err
}

// headerTerm is the term of who has written the header of a run that others will lead: every leader has a higher one.
const headerTerm = 1

// claim makes a term the one that speaks for the run. begun says that its plan holds nothing but its header and terms. It returns the
// checkpoints that count. The run needs the documents from sequence from on, as far as they are not given up; the first of them is returned too.
func (e Edges) claim(ctx context.Context, term uint64, begun bool, from uint64) (stored []Stored, first uint64, err error) {
	if e.Checkpoints != nil {
		if stored, err = e.Checkpoints.Claim(ctx, term, begun); err != nil {
			return nil, 0, err
		}
	}
	if e.Floors == nil {
		return stored, from, nil
	}
	first, err = e.Floors.Claim(ctx, term, from)
	return stored, first, err
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
	h.Keyed = e.Keyed
	record := plan.EncodeRecord(h)
	if most := e.Plan.MaxRecord(); len(record) > most {
		return fmt.Errorf("its header of %d bytes is larger than a record of %d: fork at a step with less in flight, or raise the server's max_payload",
			len(record), most)
	}
	if err := e.clear(ctx, h); err != nil {
		return err
	}
	if err := e.Plan.Append(ctx, 0, record); err != nil {
		return err
	}
	_, _, err = e.claim(ctx, headerTerm, true, h.Start)
	return err
}
