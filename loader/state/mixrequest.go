package state

import "loaderd/loader/mixture"

// MixRequest asks for a change of the mixture.
type MixRequest struct {
	// Change may leave out weights: the leader completes them where it records the change, with the shares in force there.
	mixture.Change
	// By is the identity that asks; it may be empty.
	By string
	// Request identifies the request: a repeated one is answered with the change that the plan has. Empty stands for a new
	// request.
	Request string
	// Decided is the number of steps that a trainer had seen when it decided, nil for other requests. Where the plan has a
	// change for that number, by any trainer, that change is the answer and nothing is recorded.
	Decided *uint64
	// DryRun records nothing and refuses what a change would refuse.
	DryRun bool
}

// MixResult is a change of the mixture that the plan has, or of a dry run, would have.
type MixResult struct {
	Step    uint64             `json:"step"`            // the first one that can differ by it
	Weights map[string]float64 `json:"weights"`         // as the plan has them, of all sources
	Again   bool               `json:"again,omitempty"` // another request made the change, for the same number of steps
}
