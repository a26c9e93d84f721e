package state

import (
	"time"

	"loaderd/loader/fault"
)

// Client describes a client beyond its place.
type Client struct {
	Session   string // set by a client that reports its consumption, see Consumption; otherwise empty
	Delivered uint64 // steps that its trainer had consumed when it opened the stream
	Steps     uint64 // number of requested steps; 0: until the end of the run
	// steps before the stream's first one that it has read from earlier streams, of another daemon or before a restart
	PriorSteps uint64
	Address    string
}

// Consumption is a client's report of the steps that its trainer has consumed. It controls when the next steps are
// sent, and is not part of the plan.
type Consumption struct {
	Session     string        // of the client
	Delivered   uint64        // steps delivered to the trainer: the index of the next one
	Waiting     bool          // the trainer waits for that step; otherwise it holds the previous one
	SinceChange time.Duration // time since Taken or Waiting changed
	Left        bool          // the client was closed intentionally
}

// ConsumptionResponse is the answer to a Consumption.
type ConsumptionResponse struct {
	Known  bool         // the rank has a stream, or had one
	Window int          // maximum number of steps sent beyond Taken
	Alert  *fault.Error // which rank of the job holds back the others; nil if none does
}
