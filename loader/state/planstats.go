package state

import (
	"fmt"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/packonline"
)

// PlanStats are the statistics of the planner, as last sampled by the leader's loop.
type PlanStats struct {
	Counts     planner.Counts
	PackCounts packonline.Counts
	Pool       packonline.Pending
	WindowRows int
	QueuedRows int
	Capacity   planner.Capacity
	Queues     []planner.QueueStat
	Shortage   planner.Shortage // for an early flush, while one is possible
	// documents that must be packed before an early flush; 0: their number triggers none
	FlushAt         int64 `json:",omitempty"`
	Cursor          plan.Position
	PreviousCursor  plan.Position // of the previous snapshot
	LowWatermark    plan.Position
	PackingCounters map[string]int64
	NextSource      int  // number of the source of the planner's next document
	Idle            bool // the planner reads no document until a control is recorded
	Sources         []SourceStats
	Where           string `json:",omitempty"` // filter of the documents of all sources
	FilteredInRow   int64  `json:",omitempty"` // documents that filters have rejected since the last used one
}

// SourceStats describes one source.
type SourceStats struct {
	mixture.Status
	planner.SourceCounts
	Where  string                `json:"where,omitempty"` // its filter
	Start  uint64                `json:"start"`           // sequence of the run's first document
	Next   uint64                `json:"next"`            // sequence of the next document, 0 after the last one
	Stream document.SourceStatus `json:"stream,omitzero"` // progress of its reader
}

// ReaderStat is one registered reader.
type ReaderStat struct {
	Job   string `json:"job"`
	Rank  int    `json:"rank"`
	World int    `json:"world"`
	Step  uint64 `json:"step"` // its next step
}

// Name returns a readable name of the reader.
func (r *ReaderStat) Name() string { return fmt.Sprintf("rank %d of %d", r.Rank, r.World) }
