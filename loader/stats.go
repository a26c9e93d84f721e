package loader

import (
	"cmp"
	"slices"

	"loaderd/loader/plan"
	"loaderd/packonline"
)

// planStats is what the leader's loop last told of its planner.
type planStats struct {
	counts       plan.Counts
	packed       packonline.Counts
	pool         packonline.Pending
	window       int
	queued       int
	queues       []plan.QueueStat
	lacks        plan.Shortage
	cursor       plan.Position
	cursorBefore plan.Position // at the refresh before
	floor        plan.Position
	detail       map[string]int64
}

// snapshot refreshes what the leader reports.
func (l *leader) snapshot() {
	p := l.applier.Planner
	var s planStats
	s.counts, s.packed = p.Counts()
	s.pool, s.window, s.queued = p.Waiting()
	s.queues = p.Queues()
	s.lacks = p.Shortage()
	s.cursor = p.Cursor()
	s.floor = p.Floor()
	s.detail = p.Detail()
	l.mu.Lock()
	s.cursorBefore = l.figures.cursor
	l.figures = s
	l.mu.Unlock()
}

// Stats is a snapshot of a run, for metrics, the live view and the stats action. Planner figures
// are at most a fraction of a second old, and not older than any step that can be read.
type Stats struct {
	Run             string           `json:"run"`
	Planned         uint64           `json:"planned_steps"`
	Ended           bool             `json:"ended"`
	Replaying       bool             `json:"replaying"`
	Committed       uint64           `json:"committed_step"`
	Oldest          uint64           `json:"oldest_step"` // that can be read
	Checkpoint      uint64           `json:"checkpoint_step"`
	CheckpointBytes int64            `json:"checkpoint_bytes"`
	Readers         []ReaderStat     `json:"readers"`
	Documents       int64            `json:"documents"` // that the packer has taken in, waiting ones included
	Empty           int64            `json:"empty_documents"`
	Undecoded       int64            `json:"undecodable_documents"`
	Duplicates      int64            `json:"duplicate_documents"`
	Tokens          int64            `json:"tokens"`         // of those documents
	Rows            int64            `json:"rows"`           // in steps
	Slots           int64            `json:"slots"`          // tokens of those rows, padding included
	Padding         int64            `json:"padding_tokens"` // of those
	Truncated       int64            `json:"truncated_documents"`
	Dropped         int64            `json:"dropped_tokens"`
	Repeated        int64            `json:"repeated_tokens"`
	AgeMax          int64            `json:"age_max"`
	PoolPieces      int              `json:"pool_pieces"`
	HeldRows        int              `json:"held_rows"`   // finished ones that are held back
	HeldPieces      int              `json:"held_pieces"` // in them
	PoolTokens      int64            `json:"pool_tokens"` // of the pieces in the pool and in these rows
	WindowRows      int              `json:"shuffle_rows"`
	QueueRows       int              `json:"queue_rows"`
	Queues          []plan.QueueStat `json:"queues"`      // by bucket
	RowsNeeded      int              `json:"rows_needed"` // that the next step needs, those behind it included; the least that can do
	RowsThere       int              `json:"rows_there"`  // of those
	WaitMax         int64            `json:"wait_max"`    // most documents that came while a row waited for its step
	Cursor          uint64           `json:"cursor"`
	Floor           uint64           `json:"floor"`
	CacheBytes      int64            `json:"cache_bytes"`
	CacheHits       int64            `json:"cache_hits"`
	CacheMisses     int64            `json:"cache_misses"`
	Source          SourceStatus     `json:"source"`
	// Trouble is what is wrong with the document stream although it can be reached; empty when all is well.
	Trouble string `json:"stream_trouble,omitempty"`
	// Packing is what the packing method itself counts: of splice how rows ended, see docs/splice.md. It is not changed.
	Packing map[string]int64 `json:"packing,omitempty"`
}

// ReaderStat is one registered reader.
type ReaderStat struct {
	Rank  int    `json:"rank"`
	World int    `json:"world"`
	Step  uint64 `json:"step"` // next step it will ask for
}

// Stats returns the present figures.
func (r *Run) Stats() Stats {
	now := r.plan.now() // before the figures, which are not to be older than any step
	p := r.leader.report()
	s := Stats{Run: r.leader.name, Planned: now.steps, Ended: now.ended, Replaying: p.replays, Committed: now.keepers.Committed(), Oldest: now.oldest,
		Checkpoint: p.checkpointed, CheckpointBytes: p.checkpointBytes, Readers: r.follower.readerStats(),
		Documents: p.packed.Documents, Empty: p.counts.Empty, Undecoded: p.counts.Undecoded, Duplicates: p.counts.Duplicates,
		Tokens: p.packed.Tokens, Rows: p.counts.Rows, Slots: p.counts.Slots, Padding: p.counts.Slots - p.counts.Tokens,
		Truncated: p.packed.Truncated, Dropped: p.packed.Dropped + p.counts.LeftTokens, Repeated: p.packed.Repeated, AgeMax: p.counts.AgeMax,
		PoolPieces: p.pool.Pieces, HeldRows: int(p.pool.Held.Rows), HeldPieces: int(p.pool.Held.Pieces), PoolTokens: p.pool.Tokens,
		WindowRows: p.window, QueueRows: p.queued, Queues: p.queues, RowsNeeded: p.lacks.Needed, RowsThere: p.lacks.There, WaitMax: p.counts.WaitMax,
		Cursor: p.cursor.Last(), Floor: p.floor.Next(), Trouble: p.trouble, Packing: p.detail}
	s.CacheBytes, s.CacheHits, s.CacheMisses = r.follower.assembler.cache.stats()
	slices.SortFunc(s.Readers, func(a, b ReaderStat) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Step, b.Step))
	})
	if p.source != nil {
		s.Source = *p.source
	}
	return s
}
