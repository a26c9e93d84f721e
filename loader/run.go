package loader

import (
	"context"
	"time"
)

// Options are what a Run needs besides its plan: nothing of it changes what is served, only when.
type Options struct {
	// Ahead is how many steps may be planned beyond what readers asked for.
	Ahead int `koanf:"ahead"`
	// Cache bounds the tokens kept for assembling rows, in bytes.
	CacheBytes int64 `koanf:"cache_bytes"`
	// Stall is how long a reader waits for a step before it gets the cause as an error.
	Stall time.Duration `koanf:"stall_timeout"`
}

// Info describes a run to readers.
type Info struct {
	Run         string `json:"run"`
	Fingerprint string `json:"fingerprint"`
	Config      Config `json:"config"`
	Planned     uint64 `json:"planned"` // steps in the plan: indexes 0 ... Planned-1 can be read
	Oldest      uint64 `json:"oldest"`  // first step that can be read
	Ended       bool   `json:"ended"`   // no step follows
	Committed   uint64 `json:"committed"`
}

// Serving is what a Run offers to a server; *Run implements it. (Documentation of the surface; servers declare what they use.)
type Serving interface {
	Info() Info
	// Join registers a reader that will ask for steps from step on. It checks rank, world and step.
	Join(place Place, step uint64) (*Reader, error)
	// Assemble returns rows [first, first+n) of a step as tokens.
	Assemble(ctx context.Context, s *Step, first, n int) (*Batch, error)
	// Step returns one step of the plan (the ledger), io.EOF behind the end, without waiting for planning.
	Step(ctx context.Context, step uint64) (*Step, error)
	// Commit records that the trainer's own checkpoint covers all steps before step. Idempotent, monotone.
	Commit(ctx context.Context, step uint64) error
	// Seal ends the stream behind its present last document; Drain empties the pool there and goes on. Both return the position.
	Seal(ctx context.Context) (uint64, error)
	Drain(ctx context.Context) (uint64, error)
	// Checkpoint stores the planner's state now and returns its step.
	Checkpoint(ctx context.Context) (uint64, error)
	Stats() Stats
}

// Reader is one rank's place in the plan. Use it from one goroutine; Close it to stop holding the plan back.
type Reader struct{}

// Next waits for the next step. It returns io.EOF behind the last step, or a *Error with the cause after Options.Stall.
func (r *Reader) Next(ctx context.Context) (*Step, error) { panic("not yet") }

// Close deregisters the reader.
func (r *Reader) Close() {}

// Stats is a snapshot of a run, for metrics, the live view and the stats action.
type Stats struct {
	Run         string       `json:"run"`
	Planned     uint64       `json:"planned_steps"`
	Ended       bool         `json:"ended"`
	Readers     []ReaderStat `json:"readers"`
	Documents   int64        `json:"documents"`
	Tokens      int64        `json:"tokens"`
	Rows        int64        `json:"rows"`
	Slots       int64        `json:"slots"`
	Padding     int64        `json:"padding_tokens"`
	Truncated   int64        `json:"truncated_documents"`
	Dropped     int64        `json:"dropped_tokens"`
	Repeated    int64        `json:"repeated_tokens"`
	Duplicates  int64        `json:"duplicate_documents"`
	PoolPieces  int          `json:"pool_pieces"`
	PoolTokens  int64        `json:"pool_tokens"`
	WindowRows  int          `json:"shuffle_rows"`
	QueueRows   int          `json:"queue_rows"`
	Cursor      uint64       `json:"cursor"`
	CacheBytes  int64        `json:"cache_bytes"`
	CacheHits   int64        `json:"cache_hits"`
	CacheMisses int64        `json:"cache_misses"`
	Source      SourceStatus `json:"source"`
}

// ReaderStat is one registered reader.
type ReaderStat struct {
	Rank  int    `json:"rank"`
	World int    `json:"world"`
	Step  uint64 `json:"step"` // next step it will ask for
}
