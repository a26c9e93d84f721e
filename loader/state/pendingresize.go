package state

import "time"

// PendingResize is a change of a job's world size that some ranks have requested, and that waits for the others.
type PendingResize struct {
	Job   string    `json:"job"`
	World int       `json:"world"` // the requested one
	Step  uint64    `json:"step"`  // first step with it
	Since time.Time `json:"since"` // of the first request, by the clock of the leader
	// Joined are the first ranks that have requested it, and Missing the first of those that have not.
	Joined       []int `json:"joined"`
	JoinedCount  int   `json:"joined_count"`
	Missing      []int `json:"missing"`
	MissingCount int   `json:"missing_count"`
}
