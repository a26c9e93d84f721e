package state

import "loaderd/loader/runconfig"

// ScheduleRequest requests a change of the schedule of steps.
type ScheduleRequest struct {
	// Phases replace the phases that have not begun.
	Phases []runconfig.Phase
	// By is the identity of the requester; it may be empty.
	By string
	// Request identifies the request. A repeated request returns the change that the plan has. Empty means a new
	// request.
	Request string
	// DryRun validates the change without recording it.
	DryRun bool
}
