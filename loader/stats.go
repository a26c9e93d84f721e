package loader

import (
	"cmp"
	"slices"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// Stats is a snapshot of a run, for metrics, the live view and the stats action. Planner figures
// are at most a fraction of a second old, and not older than any step that can be read.
type Stats struct {
	Run             string             `json:"run"`
	Planned         uint64             `json:"planned_steps"`
	Wanted          uint64             `json:"wanted_steps"` // no reader has asked for this step or a later one
	Ended           bool               `json:"ended"`
	Replaying       bool               `json:"replaying"`
	Committed       uint64             `json:"committed_step"`
	Oldest          uint64             `json:"oldest_step"` // that can be read
	Checkpoint      uint64             `json:"checkpoint_step"`
	CheckpointBytes int64              `json:"checkpoint_bytes"`
	Readers         []state.ReaderStat `json:"readers"`
	Documents       int64              `json:"documents"`         // that the packer has taken in, waiting ones included
	Skipped         plan.Skips         `json:"skipped_documents"` // by reason
	// used without their last tokens: more than they may have
	Cut          int64               `json:"cut_documents"`
	Tokens       int64               `json:"tokens"`         // of those documents
	Rows         int64               `json:"rows"`           // in steps
	Slots        int64               `json:"slots"`          // tokens of those rows, padding included
	Padding      int64               `json:"padding_tokens"` // of those
	MaskedTokens int64               `json:"masked_tokens"`  // in steps, without a loss
	Truncated    int64               `json:"truncated_documents"`
	Dropped      int64               `json:"dropped_tokens"`
	Repeated     int64               `json:"repeated_tokens"`
	AgeMax       int64               `json:"age_max"`
	PoolPieces   int                 `json:"pool_pieces"`
	HeldRows     int                 `json:"held_rows"`   // finished rows that the packer holds back
	HeldPieces   int                 `json:"held_pieces"` // in those rows
	PoolTokens   int64               `json:"pool_tokens"` // of the pieces in the pool and in these rows
	WindowRows   int                 `json:"shuffle_rows"`
	QueueRows    int                 `json:"queue_rows"`
	Capacity     planner.Capacity    `json:"capacity"` // of pool, held rows and queues
	Queues       []planner.QueueStat `json:"queues"`   // by bucket
	// before the next step comes, at the least; see planner.Shortage
	RowsNeeded  int    `json:"rows_needed"`
	RowsThere   int    `json:"rows_there"` // of the rows needed
	WaitMax     int64  `json:"wait_max"`   // most documents that came while a row waited for its step
	Cursor      uint64 `json:"cursor"`
	Floor       uint64 `json:"floor"`
	CacheBytes  int64  `json:"cache_bytes"`
	CacheHits   int64  `json:"cache_hits"`
	CacheMisses int64  `json:"cache_misses"`
	// that the streams of the run have taken, as far as the leader has heard
	Published uint64                `json:"published_documents"`
	Source    document.SourceStatus `json:"source"`
	// Sources are in the order of their numbers; Source is the one that comes next.
	Sources []state.SourceStats `json:"sources,omitempty"`
	// Streams is how full the document streams are, in the order of their sources.
	Streams []state.StreamFill `json:"streams,omitempty"`
	// Trouble is what is wrong with the document stream although it can be reached; empty when all is well.
	Trouble string `json:"stream_trouble,omitempty"`
	// Packing is what the packing method itself counts: of splice how rows ended, see docs/splice.md. Nobody changes it.
	Packing map[string]int64 `json:"packing,omitempty"`
}

// Stats returns the present figures.
func (r *Run) Stats() Stats {
	now := r.plan.Now() // first: the figures must not be older than any step in it
	from := r.coordinator.Report()
	p := from.PlanStats
	s := Stats{Run: r.name, Planned: now.Steps, Wanted: from.Wanted, Ended: now.Ended, Replaying: from.Replays,
		Committed: now.Keepers.Committed(), Oldest: now.Oldest,
		Checkpoint: from.Checkpointed, CheckpointBytes: from.CheckpointBytes, Readers: r.follower.ReaderStats(),
		Documents: p.Packed.Documents, Skipped: p.Counts.Skipped, MaskedTokens: p.Counts.MaskedTokens, Cut: p.Counts.Cut,
		Tokens: p.Packed.Tokens, Rows: p.Counts.Rows, Slots: p.Counts.Slots, Padding: p.Counts.Slots - p.Counts.Tokens,
		Truncated: p.Packed.Truncated, Dropped: p.Packed.Dropped + p.Counts.LeftTokens, Repeated: p.Packed.Repeated,
		AgeMax:     p.Counts.AgeMax,
		PoolPieces: p.Pool.Pieces, HeldRows: int(p.Pool.Held.Rows), HeldPieces: int(p.Pool.Held.Pieces),
		PoolTokens: p.Pool.Tokens,
		WindowRows: p.Window, QueueRows: p.Queued, Capacity: p.Capacity, Queues: p.Queues, RowsNeeded: p.Lacks.Needed,
		RowsThere: p.Lacks.There, WaitMax: p.Counts.WaitMax,
		Cursor: p.Cursor.Last(), Floor: p.Floor.Next(), Trouble: from.Trouble, Published: from.Published(), Packing: p.Detail,
		Streams: from.Streams, Sources: slices.Clone(p.Sources)}
	for i := range s.Sources {
		s.Sources[i].Stream = from.Sources[s.Sources[i].Name]
	}
	s.CacheBytes, s.CacheHits, s.CacheMisses = r.follower.Assembler.Stats()
	slices.SortFunc(s.Readers, func(a, b state.ReaderStat) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank),
			cmp.Compare(a.Step, b.Step))
	})
	if from.Source != nil {
		s.Source = *from.Source
	}
	return s
}
