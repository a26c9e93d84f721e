package planview

import (
	"context"
	"fmt"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
)

// PrepareRun prepares the streams for the first record of a run's plan. From then on no other run purges documents that
// the run needs, and the documents from its first one on are present. It changes nothing that may belong to another
// run. Whether the run has a plan already is decided by the append of the header. Crash safety:
//
//	step                          a crash leaves                   the next start
//	low watermark recorded        documents that no run may purge  continues; without one they expire
//	header appended               a run without a term, and        finds its plan, and ignores those
//	                              checkpoints of an earlier plan   checkpoints
//	term appended                 a term without a claim           appends another term
//	term claims the checkpoints   earlier plan's checkpoints       deletes them
func (s *Streams) PrepareRun(ctx context.Context, h planrecord.Header) error {
	all, err := s.RunStreams(ctx, h)
	for _, x := range all {
		if err == nil {
			err = x.prepareRun(ctx, h)
		}
	}
	return err
}

func (x RunStream) prepareRun(ctx context.Context, h planrecord.Header) error {
	var left uint64 // first document that is not released
	if x.LowWatermarks != nil {
		var err error
		if left, err = x.LowWatermarks.Register(ctx, x.Start); err != nil {
			return err
		}
	}
	now, err := x.Documents.State(ctx)
	if err == nil {
		err = CheckStream(h.Run, x.SourceBegin.Stream, now.Stream)
	}
	if err == nil && max(now.First, left) > x.Start {
		do := "start it again"
		if h.Parent != nil {
			do = "fork at a later step; an epoch of a source can be read again only while all of its documents exist"
		}
		err = &fault.Error{Reason: fault.DocumentLost,
			Message: fmt.Sprintf("document %d of source %s, where the run was to begin, is purged", x.Start, x.Name), Advice: do}
	}
	return err
}

// ClaimLowWatermarks records for a term that the run needs its documents from the first one on, as far as they are not
// released. It returns the first document of each source that is not.
func (s *Streams) ClaimLowWatermarks(ctx context.Context, term uint64, h planrecord.Header) (Needs, error) {
	all, err := s.RunStreams(ctx, h)
	first := make(Needs, len(all))
	for i, x := range all {
		first[i] = x.Start
		if err == nil && x.LowWatermarks != nil {
			first[i], err = x.LowWatermarks.Claim(ctx, term, x.Start)
		}
	}
	return first, err
}
