package loader

import (
	"context"
	"fmt"

	"loaderd/loader/document"
	"loaderd/loader/fault"
)

// StreamStates returns the current state of the streams of a run's sources, by source number.
func (r *Run) StreamStates(ctx context.Context) ([]document.StreamState, error) {
	h, _ := r.plan.Header()
	streams, err := r.streams.RunStreams(ctx, h)
	if err != nil {
		return nil, &fault.Error{Reason: fault.SourceDown, Message: "cannot open the streams of the sources", Err: err,
			Advice: "try again"}
	}
	out := make([]document.StreamState, len(streams))
	for i, x := range streams {
		if out[i], err = x.Documents.State(ctx); err != nil {
			return nil, &fault.Error{Reason: fault.SourceDown,
				Message: fmt.Sprintf("cannot read the end of the stream of source %s", x.Name), Err: err, Advice: "try again"}
		}
	}
	return out, nil
}
