package state

import (
	"fmt"

	"loaderd/internal/humanize"
)

// StreamFill is the fill of a document stream, as measured by its run's leader.
type StreamFill struct {
	Source        string   `json:"source"`
	Name          string   `json:"name"` // of the JetStream stream
	Bytes         int64    `json:"bytes"`
	MaxBytes      int64    `json:"max_bytes"`                  // 0: unlimited
	Configured    int64    `json:"configured_bytes,omitempty"` // StreamState.Configured
	Free          *int64   `json:"free_bytes,omitempty"`       // StreamState.Free
	Account       *Quota   `json:"account,omitempty"`          // storage of its JetStream account; nil without a limit
	Full          bool     `json:"full"`                       // the next document may not fit
	FullInSeconds *float64 `json:"full_in_seconds,omitempty"`  // at the last minute's growth; nil without growth
}

// Quota is the usage of a limit, in bytes.
type Quota struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
	Full     bool  `json:"full"` // the next document may not fit
}

// String returns the usage for display, for example: 1.0 GiB of 1.0 GiB.
func (q Quota) String() string { return humanize.Bytes(q.Bytes) + " of " + humanize.Bytes(q.MaxBytes) }

// IsAccountFull reports whether the account has no room for the stream's next document, regardless of the bound of the
// stream.
func (f *StreamFill) IsAccountFull() bool { return f.Account != nil && f.Account.Full }

// Advice returns the advice that gives the stream more room.
func (f *StreamFill) Advice() string {
	switch {
	case f.IsAccountFull():
		return "raise the storage limit of the JetStream account, or delete streams of it that are not used"
	case f.Configured == 0:
		return fmt.Sprintf("raise the bound of stream %q", f.Name) +
			" (stream.max_bytes of the daemon that runs the NATS server, or nats stream edit --max-bytes)"
	case f.Configured > f.MaxBytes:
		return "free space on the disk of the NATS server, then restart the daemon: the bound is at most half of what is free"
	}
	return "raise stream.max_bytes and restart the daemon"
}
