package planview

import (
	"context"
	"fmt"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
)

// Clear makes everything ready for the first record of a run's plan: nobody gives up from here on what the run needs,
// and the documents from its first one on are there. Nothing that may be another's is touched: whether the run has no
// plan yet, the append of the record will say.
//
//	step                        a crash leaves                             and the next start
//	the floor is recorded       documents that nobody may purge            goes on from there; without one they are free after a while
//	the header is appended      a run without a term, checkpoints of an    finds its plan, and none of those: they are of another plan
//	                            earlier plan of that name
//	the term is appended        a term that has claimed nothing            appends another one
//	its owner claims            checkpoints of the earlier plan to delete  deletes them
func (s *Streams) Clear(ctx context.Context, h planrecord.Header) error {
	all, err := s.All(ctx, h)
	for _, x := range all {
		if err == nil {
			err = x.clear(ctx, h)
		}
	}
	return err
}

func (x RunStream) clear(ctx context.Context, h planrecord.Header) error {
	var left uint64 // the first document that is not given up
	if x.LowWatermarks != nil {
		var err error
		if left, err = x.LowWatermarks.Begin(ctx, x.Start); err != nil {
			return err
		}
	}
	now, err := x.Documents.State(ctx)
	if err == nil {
		err = MadeOf(h.Run, x.SourceBegin.Stream, now.Stream)
	}
	if err == nil && max(now.First, left) > x.Start {
		do := "start it again"
		if h.Parent != nil {
			do = "fork at a later step; an epoch of a source can be read again only while all of its documents are there"
		}
		err = &fault.Error{Reason: fault.DocumentLost,
			Message: fmt.Sprintf("document %d of source %s, where the run was to begin, is purged", x.Start, x.Name), Do: do}
	}
	return err
}

// Claim says for a term that the run needs its documents from the first one on, as far as they are not given up. It
// returns which are not.
func (s *Streams) Claim(ctx context.Context, term uint64, h planrecord.Header) (Needs, error) {
	all, err := s.All(ctx, h)
	first := make(Needs, len(all))
	for i, x := range all {
		first[i] = x.Start
		if err == nil && x.LowWatermarks != nil {
			first[i], err = x.LowWatermarks.Claim(ctx, term, x.Start)
		}
	}
	return first, err
}
