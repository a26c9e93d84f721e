package loader

import (
	"cmp"
	"slices"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// Stats is a snapshot of a run, for metrics, the live view and the stats action. The planner's statistics are at most
// a fraction of a second old, and not older than any readable step.
type Stats struct {
	Run              string `json:"run"`
	Planned          uint64 `json:"planned_steps"`
	FirstUnrequested uint64 `json:"wanted_steps"` // no reader has requested this step or a later one
	Ended            bool   `json:"ended"`
	Replaying        bool   `json:"replaying"`
	Committed        uint64 `json:"committed_step"`
	Oldest           uint64 `json:"oldest_step"` // oldest readable step
	Checkpoint       uint64 `json:"checkpoint_step"`
	CheckpointBytes  int64  `json:"checkpoint_bytes"`
	JobStats
	Documents int64      `json:"documents"`         // read by the packer, including buffered ones
	Skipped   plan.Skips `json:"skipped_documents"` // by reason
	// used without their last tokens, because they exceed the limit
	Cut          int64 `json:"cut_documents"`
	Tokens       int64 `json:"tokens"`         // of those documents
	Rows         int64 `json:"rows"`           // in steps
	Slots        int64 `json:"slots"`          // tokens of those rows, including padding
	Padding      int64 `json:"padding_tokens"` // of those
	MaskedTokens int64 `json:"masked_tokens"`  // in steps, without a loss
	Truncated    int64 `json:"truncated_documents"`
	Dropped      int64 `json:"dropped_tokens"`
	Repeated     int64 `json:"repeated_tokens"`
	MaxAge       int64 `json:"age_max"`
	PoolPieces   int   `json:"pool_spans"`
	HeldStats
	PoolTokens int64               `json:"pool_tokens"` // of the pieces in the pool and in held rows
	WindowRows int                 `json:"shuffle_rows"`
	QueueRows  int                 `json:"queue_rows"`
	Capacity   planner.Capacity    `json:"capacity"` // of pool, held rows and queues
	Queues     []planner.QueueStat `json:"queues"`   // by bucket
	RowShortage
	MaxWait      int64  `json:"wait_max"` // maximum number of documents that arrived while a row waited for its step
	Cursor       uint64 `json:"cursor"`
	LowWatermark uint64 `json:"low_watermark"`
	CacheBytes   int64  `json:"cache_bytes"`
	CacheHits    int64  `json:"cache_hits"`
	CacheMisses  int64  `json:"cache_misses"`
	// Exchange counts the documents exchanged with other daemons.
	Exchange state.DocumentExchange `json:"exchange"`
	// stored in the streams of the run, as far as the leader has observed
	Published uint64                `json:"published_documents"`
	Source    document.SourceStatus `json:"source"`
	// Sources are in the order of their numbers; Source is that of the next document.
	Sources []state.SourceStats `json:"sources,omitempty"`
	// Streams has the fills of the document streams, in the order of their sources.
	Streams []state.StreamFill `json:"streams,omitempty"`
	// Where is the filter of the documents of all sources; empty for none.
	Where string `json:"where,omitempty"`
	// StreamProblem is the problem of a reachable document stream; empty if none.
	StreamProblem string `json:"stream_trouble,omitempty"`
	// PackingCounters has the counters of the packing method: for splice, how rows ended, see
	// docs/explanation/splice.md. It must not be changed.
	PackingCounters map[string]int64 `json:"packing,omitempty"`
}

// JobStats describe the jobs that read a run.
type JobStats struct {
	Readers []state.ReaderStat    `json:"readers"`
	Resizes []state.PendingResize `json:"resizes,omitempty"` // changes of world sizes that wait for ranks
}

// HeldStats are the finished rows that the packer holds back.
type HeldStats struct {
	HeldRows   int `json:"holdback_rows"`
	HeldPieces int `json:"holdback_spans"` // in those rows
}

// RowShortage is the number of rows before the next step is planned; see planner.Shortage.
type RowShortage struct {
	RowsNeeded int `json:"rows_needed"` // minimum
	RowsReady  int `json:"rows_ready"`  // of these
}

// Stats returns the current statistics.
func (r *Run) Stats() Stats {
	now := r.plan.Snapshot() // first, because the statistics must not be older than any step in it
	from := r.coordinator.Report()
	p := from.PlanStats
	s := Stats{Run: r.name, Planned: now.Steps, FirstUnrequested: from.FirstUnrequested, Ended: now.Ended,
		Replaying: from.Replaying,
		Committed: now.Commits.Committed(), Oldest: now.Oldest,
		Checkpoint: from.CheckpointStep, CheckpointBytes: from.CheckpointBytes,
		JobStats:  JobStats{r.follower.ReaderStats(), from.Resizes},
		Documents: p.PackCounts.Documents, Skipped: p.Counts.Skipped, MaskedTokens: p.Counts.MaskedTokens, Cut: p.Counts.Cut,
		Tokens: p.PackCounts.Tokens, Rows: p.Counts.Rows, Slots: p.Counts.Slots, Padding: p.Counts.Slots - p.Counts.Tokens,
		Truncated: p.PackCounts.Truncated, Dropped: p.PackCounts.Dropped + p.Counts.LeftTokens,
		Repeated:   p.PackCounts.Repeated,
		MaxAge:     p.Counts.AgeMax,
		PoolPieces: p.Pool.Pieces,
		HeldStats:  HeldStats{HeldRows: int(p.Pool.Held.Rows), HeldPieces: int(p.Pool.Held.Pieces)},
		PoolTokens: p.Pool.Tokens, Where: p.Where,
		WindowRows: p.WindowRows, QueueRows: p.QueuedRows, Capacity: p.Capacity, Queues: p.Queues,
		RowShortage: RowShortage{RowsNeeded: p.Shortage.Needed, RowsReady: p.Shortage.Packed}, MaxWait: p.Counts.WaitMax,
		Cursor: p.Cursor.Last(), LowWatermark: p.LowWatermark.Next(), StreamProblem: from.StreamProblem,
		Published: from.PublishedDocuments(), PackingCounters: p.PackingCounters,
		Streams: from.StreamFills, Sources: slices.Clone(p.Sources)}
	for i := range s.Sources {
		s.Sources[i].Stream = from.Sources[s.Sources[i].Name]
	}
	s.Exchange = r.coordinator.Documents().Stats()
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
