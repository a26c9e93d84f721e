package state

import (
	"time"

	"loaderd/loader/fault"
)

// Client describes a client beyond its place.
type Client struct {
	Session string // of a client that reports what its trainer has taken, see Consumption; else empty
	Taken   uint64 // steps that its trainer had taken when it opened the stream
	Steps   uint64 // that it asks for; 0: until the end of the run
	// steps before the stream's first one that it has read by earlier streams, of another daemon or before a restart
	Read    uint64
	Address string
}

// Consumption is a client's report of the steps that its trainer has taken from it. It decides when the next steps are
// sent, and is no part of the plan.
type Consumption struct {
	Session string        // of the client
	Taken   uint64        // steps handed to the trainer: the index of the next one
	Waiting bool          // the trainer waits for that step; else it holds the one before
	Still   time.Duration // since Taken or Waiting changed
	Left    bool          // the client was closed on purpose
}

// Receipt answers a Consumption.
type Receipt struct {
	Known  bool         // the rank has a stream, or had one
	Window int          // steps that the rank is sent beyond those taken
	Alert  *fault.Error // which rank of the job holds the others; nil when none does
}
