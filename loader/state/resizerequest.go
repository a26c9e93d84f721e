package state

import (
	"fmt"

	"loaderd/loader/planrecord"
)

// ResizeRequest requests that a job has another world size from a step on.
type ResizeRequest struct {
	RankID         // the rank of the process in the new world size
	Session string // of the client
	Request string // id of the client's call, the same in repeated requests; may be empty
	Step    uint64 // first step with the new world size
	Skips   string // steps that the job skips, as text; equal on all ranks
	// Withdraw ends an earlier request of the client.
	Withdraw bool
	// Restart records the world size of a job that was stopped and starts again, without the agreement of its ranks.
	Restart bool
}

// WorldSize returns the requested world size.
func (q *ResizeRequest) WorldSize() planrecord.WorldSize {
	return planrecord.WorldSize{Step: q.Step, Ranks: q.World}
}

// Validate rejects a request that no record can contain, or whose rank the world size does not have.
func (q *ResizeRequest) Validate() error {
	if q.World < 1 || q.World > planrecord.MaxWorldSize || q.Rank < 0 || q.Rank >= q.World || q.Peer < 0 {
		return fmt.Errorf("rank %d of world %d, peer %d: want 0 <= rank < world <= %d", q.Rank, q.World, q.Peer,
			planrecord.MaxWorldSize)
	}
	if err := planrecord.ValidateRequestID(q.Request); err != nil {
		return err
	}
	return planrecord.ValidJob(q.JobName())
}

// ResizeResult is the result of a ResizeRequest.
type ResizeResult struct {
	// Agreed reports whether all ranks have requested the same, and the plan has the record. Until then Missing are the
	// first ranks without a request, and MissingCount is the number of such ranks.
	Agreed       bool  `json:"agreed"`
	Missing      []int `json:"missing,omitempty"`
	MissingCount int   `json:"missing_count,omitempty"`
	// Refused is the error of the last request that contradicts this one, empty for none.
	Refused string `json:"refused,omitempty"`
}
