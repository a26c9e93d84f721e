package loader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
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
func (s *streams) clear(ctx context.Context, h plan.Header) error {
	all, err := s.all(ctx, h)
	for _, x := range all {
		if err == nil {
			err = x.clear(ctx, h)
		}
	}
	return err
}

func (x opened) clear(ctx context.Context, h plan.Header) error {
	var left uint64 // the first document that is not given up
	if x.LowWatermarks != nil {
		var err error
		if left, err = x.LowWatermarks.Begin(ctx, x.Start); err != nil {
			return err
		}
	}
	now, err := x.Documents.State(ctx)
	if err == nil {
		err = madeOf(h.Run, x.SourceBegin.Stream, now.Stream)
	}
	if err == nil && max(now.First, left) > x.Start {
		do := "start it again"
		if h.Parent != nil {
			do = "fork at a later step; an epoch of a source can be read again only while all of its documents are there"
		}
		err = &fault.Error{Reason: fault.DocumentLost, Message: fmt.Sprintf("document %d of source %s, where the run was to begin, is purged", x.Start, x.Name), Do: do}
	}
	return err
}

// headerTerm is the term of who has written the header of a run that others will lead: every leader has a higher one.
const headerTerm = 1

// claimCheckpoints makes a term the one that speaks for the run. begun says that its plan holds nothing but its header and terms. It returns the
// checkpoints that count.
func claimCheckpoints(ctx context.Context, e backend.Backends, term uint64, begun bool) ([]backend.Stored, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	return e.Checkpoints.Claim(ctx, term, begun)
}

// claim says for a term that the run needs its documents from the first one on, as far as they are not given up. It returns which are not.
func (s *streams) claim(ctx context.Context, term uint64, h plan.Header) (needs, error) {
	all, err := s.all(ctx, h)
	first := make(needs, len(all))
	for i, x := range all {
		first[i] = x.Start
		if err == nil && x.LowWatermarks != nil {
			first[i], err = x.LowWatermarks.Claim(ctx, term, x.Start)
		}
	}
	return first, err
}

// Begin writes the header of a forked run, and the state that it begins with, into its empty plan log, after it has told LowWatermarks what the run needs. A daemon that serves
// the run with the header's configuration goes on from there.
func Begin(ctx context.Context, e backend.Backends, h plan.Header) error {
	if err := begin(ctx, e, h); err != nil {
		return fmt.Errorf("begin run %s: %w", h.Run, err)
	}
	return nil
}

func begin(ctx context.Context, e backend.Backends, h plan.Header) error {
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
		h, state = h.WithState(e.Plan.MaxRecord())
	}
	record := plan.EncodeRecord(h)
	if most := e.Plan.MaxRecord(); len(record) > most {
		return fmt.Errorf("its header of %d bytes is larger than a record of %d: fork at a step with less in flight, or raise the server's max_payload",
			len(record), most)
	}
	all := newStreams(e, nil)
	if err := all.clear(ctx, h); err != nil {
		return err
	}
	if err := e.Plan.Append(ctx, 0, append([][]byte{record}, state...)...); err != nil {
		return err
	}
	if _, err = claimCheckpoints(ctx, e, headerTerm, true); err == nil {
		_, err = all.claim(ctx, headerTerm, h)
	}
	return err
}
