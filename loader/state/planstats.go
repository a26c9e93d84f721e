package state

import (
	"fmt"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/packonline"
)

// PlanStats are the figures of the planner when the leader's loop last took them.
type PlanStats struct {
	Counts   planner.Counts
	Packed   packonline.Counts
	Pool     packonline.Pending
	Window   int
	Queued   int
	Capacity planner.Capacity
	Queues   []planner.QueueStat
	Lacks    planner.Shortage // of an early drain, while one is possible
	// documents that must be packed before an early drain; 0: their number makes none
	DrainAt      int64 `json:",omitempty"`
	Cursor       plan.Position
	CursorBefore plan.Position // of the snapshot before
	Floor        plan.Position
	Detail       map[string]int64
	Wants        int  // number of the source that the planner takes the next document from
	Idle         bool // it takes none before a control comes
	Sources      []SourceStats
}

// SourceStats describes one source.
type SourceStats struct {
	mixture.Status
	planner.SourceCounts
	Start  uint64                `json:"start"`           // sequence of the document that the run began with
	Next   uint64                `json:"next"`            // sequence of the next document, 0 behind the last one
	Stream document.SourceStatus `json:"stream,omitzero"` // how far it is read
}

// ReaderStat is one registered reader.
type ReaderStat struct {
	Job   string `json:"job"`
	Rank  int    `json:"rank"`
	World int    `json:"world"`
	Step  uint64 `json:"step"` // next step it will ask for
}

// Name is a reader for people.
func (r *ReaderStat) Name() string { return fmt.Sprintf("rank %d of %d", r.Rank, r.World) }
