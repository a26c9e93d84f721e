package state

import "loaderd/loader/mixture"

// MixRequest requests a change of the mixture.
type MixRequest struct {
	// Change may omit weights. The leader completes them when it records the change, from the shares in effect then.
	mixture.Change
	// By is the identity of the requester; it may be empty.
	By string
	// Request identifies the request. A repeated request returns the change that the plan has. Empty means a new
	// request.
	Request string
	// Decided is the number of steps that a trainer had seen when it decided; nil for other requests. If the plan has a
	// change for that number, by any trainer, that change is returned and nothing is recorded.
	Decided *uint64
	// DryRun validates the change without recording it.
	DryRun bool
}

// MixResult is a recorded change of the mixture, or the change that a dry run would record.
type MixResult struct {
	Step      uint64             `json:"step"`            // the first step that the change can affect
	Weights   map[string]float64 `json:"weights"`         // as recorded, for all sources
	Duplicate bool               `json:"again,omitempty"` // another request made the change, for the same number of steps
}
