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

// heartbeat is the periodic message of a daemon to the others of its run.
type heartbeat struct {
	Daemon string        `json:"daemon"`
	Flight string        `json:"flight,omitempty"` // where readers find it
	Demand *state.Demand `json:"demand,omitempty"`
	Left   bool          `json:"left,omitempty"` // it stops
	// Roll is a page of the ranks that it serves, in a heartbeat of its own.
	Roll *census.Roll `json:"roll,omitempty"`
	// Sources is a page of the report of a leader, in a heartbeat of its own before the report.
	Sources *sourcePage   `json:"sources,omitempty"`
	Lead    *state.Report `json:"lead,omitempty"`   // when it leads
	At      uint64        `json:"at,omitempty"`     // likewise: last record of the plan
	Oldest  uint64        `json:"oldest,omitempty"` // likewise: steps before it cannot be read
}

// Limits on what other daemons send. A client of the NATS servers may send anything, in the name of any daemon.
const (
	maxDaemons      = 4096
	maxJobs         = 1024
	maxAddressBytes = 255
)

const (
	// maxHeartbeatBytes bounds an encoded heartbeat, as far as readers and sources make it long.
	maxHeartbeatBytes = 64 << 10
	// heartbeatMargin is more than a heartbeat has around a page of a roll.
	heartbeatMargin = 1 << 10
	// heartbeatBytesPerSecond bounds the bytes of heartbeats that a daemon sends.
	heartbeatBytesPerSecond = 1 << 20
)

// encode returns the encoded heartbeat. Where it would be longer than maxHeartbeatBytes it does not name all jobs.
func (w heartbeat) encode(keepers planrecord.Keepers) ([]byte, error) {
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
	short := w.Demand.Shortened(maxHeartbeatBytes-len(b)-len(`"jobs":{},`), keepers)
	x.Demand = &short
	return json.Marshal(x)
}

// decodeHeartbeat reads a heartbeat; it refuses one that no daemon sends.
func decodeHeartbeat(b []byte) (w heartbeat, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if w.Daemon == "" {
		return w, errors.New("a word of nobody")
	}
	if err := (planrecord.Term{Daemon: w.Daemon}).Validate(); err != nil {
		return w, err
	}
	if len(w.Flight) > maxAddressBytes || strings.ContainsFunc(w.Flight, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return w, fmt.Errorf("%q is no address", w.Flight)
	}
	if w.Roll != nil {
		if err := w.Roll.Check(planrecord.ValidKeeper); err != nil {
			return w, err
		}
	}
	if w.Sources != nil {
		if err := w.Sources.check(len(b)); err != nil {
			return w, err
		}
	}
	if w.Lead != nil && (w.Lead.Pages < 0 || w.Lead.Pages > maxReportPages) {
		return w, fmt.Errorf("a report of %d pages", w.Lead.Pages)
	}
	if w.Demand == nil {
		return w, nil
	}
	if len(w.Demand.Jobs) > maxJobs {
		return w, fmt.Errorf("%d jobs", len(w.Demand.Jobs))
	}
	for job := range w.Demand.Jobs {
		if err := planrecord.ValidKeeper(job); err != nil && job != state.UnnamedJob {
			return w, err
		}
	}
	return w, nil
}
