package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"loaderd/loader/census"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// heartbeat is the message that a daemon periodically sends to the other daemons of its run.
type heartbeat struct {
	Daemon   string        `json:"daemon"`
	Address  string        `json:"flight,omitempty"` // address at which readers reach the daemon
	Demand   *state.Demand `json:"demand,omitempty"`
	Stopping bool          `json:"left,omitempty"` // the daemon stops
	// Roll is a page of the ranks that the daemon serves. It has its own heartbeat.
	Roll *census.Snapshot `json:"roll,omitempty"`
	// Sources is a page of a leader's report. It has its own heartbeat, sent before the report's.
	Sources      *sourcePage   `json:"sources,omitempty"`
	Report       *state.Report `json:"lead,omitempty"`   // set by a leader
	PlanPosition uint64        `json:"at,omitempty"`     // set by a leader: position of the plan's last record
	OldestStep   uint64        `json:"oldest,omitempty"` // set by a leader: the oldest step that can be read
}

// Limits on what other daemons send. A client of the NATS servers may send anything, in the name of any daemon.
const (
	maxDaemons      = 4096
	maxJobs         = 1024
	maxAddressBytes = 255
)

const (
	// maxHeartbeatBytes bounds an encoded heartbeat, as far as its size depends on readers and sources.
	maxHeartbeatBytes = 64 << 10
	// heartbeatMargin exceeds the bytes that a heartbeat adds to a page of a roll.
	heartbeatMargin = 1 << 10
	// heartbeatBytesPerSecond bounds the rate at which a daemon sends heartbeats, in bytes per second.
	heartbeatBytesPerSecond = 1 << 20
)

// encode returns the encoded heartbeat. It omits jobs if the heartbeat would exceed maxHeartbeatBytes.
func (w heartbeat) encode(commits planrecord.Commits) ([]byte, error) {
	b, err := json.Marshal(w)
	if err != nil || len(b) <= maxHeartbeatBytes || w.Demand == nil {
		return b, err
	}
	without := *w.Demand
	without.Jobs = nil
	x := w
	x.Demand = &without
	if b, err = json.Marshal(x); err != nil {
		return nil, err
	}
	short := w.Demand.Truncate(maxHeartbeatBytes-len(b)-len(`"jobs":{},`), commits)
	x.Demand = &short
	return json.Marshal(x)
}

// decodeHeartbeat decodes a heartbeat. It returns an error for a message that no daemon sends.
func decodeHeartbeat(b []byte) (w heartbeat, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if w.Daemon == "" {
		return w, errors.New("a heartbeat without a name")
	}
	if err := (planrecord.Term{Daemon: w.Daemon}).Validate(); err != nil {
		return w, err
	}
	if len(w.Address) > maxAddressBytes || strings.ContainsFunc(w.Address, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return w, fmt.Errorf("%q is no address", w.Address)
	}
	if w.Roll != nil {
		if err := w.Roll.Validate(planrecord.ValidJob); err != nil {
			return w, err
		}
	}
	if w.Sources != nil {
		if err := w.Sources.validate(len(b)); err != nil {
			return w, err
		}
	}
	if w.Report != nil && (w.Report.Pages < 0 || w.Report.Pages > maxReportPages) {
		return w, fmt.Errorf("a report of %d pages", w.Report.Pages)
	}
	if w.Demand == nil {
		return w, nil
	}
	if len(w.Demand.Jobs) > maxJobs {
		return w, fmt.Errorf("%d jobs", len(w.Demand.Jobs))
	}
	for job := range w.Demand.Jobs {
		if err := planrecord.ValidJob(job); err != nil && job != state.UnnamedJob {
			return w, err
		}
	}
	return w, nil
}
