package backend

import (
	"time"

	"loaderd/loader/mixture"
)

// Options are what a Run needs besides its plan. They decide when steps are served, never what is in them.
type Options struct {
	// Ahead is how many steps may be planned beyond what readers asked for.
	Ahead int `koanf:"ahead"`
	// CacheBytes bounds the tokens kept for assembling rows.
	CacheBytes int64 `koanf:"cache_bytes"`
	// Stall is how long a reader waits for a step, and a request for its record, before it gets the cause as an error.
	Stall time.Duration `koanf:"stall_timeout"`
	// Checkpoint is how many steps lie between two stored planner states. 0 stores none; a restart then re-plans from the
	// start.
	Checkpoint int `koanf:"checkpoint_steps"`
	// Silent is how long a reader may not ask for its next step although that is planned, before it is dropped: it holds
	// back the ranks of its job, and what is released, no longer. 0 never.
	Silent time.Duration `koanf:"silent_reader"`
	// Linger is how long the document stream may be quiet while a reader waits, before the waiting documents are packed
	// for it as by Drain. 0 never.
	Linger time.Duration `koanf:"linger"`
	// FirstStepQuiet and FirstStepDocuments are the bounds of an early drain: as long as the shuffle window has not
	// filled, the waiting documents are packed for a waiting reader as by Drain. The first is how long the document
	// stream must be quiet, the second how many documents must have arrived. 0 never.
	FirstStepQuiet     time.Duration `koanf:"first_step_quiet"`
	FirstStepDocuments int64         `koanf:"first_step_documents"`
	// Release says what becomes of documents that neither a step behind the keepers' commits nor a restart needs: keep or
	// purge.
	Release string `koanf:"release"`
	// ReleaseAfter is how long they are kept then.
	ReleaseAfter time.Duration `koanf:"release_after"`
	// Forecast is how often it is estimated how many steps the run will have. 0 never.
	Forecast time.Duration `koanf:"forecast"`
	// Measure is how many tokens a run may still have to take, by the estimate, to be measured without being asked for,
	// once nothing of it is open: then its number of steps is exact.
	Measure mixture.Tokens `koanf:"measure_tokens"`
}

// DrainsEarly reports whether one of the bounds of an early drain is set.
func (o *Options) DrainsEarly() bool { return o.FirstStepQuiet > 0 || o.FirstStepDocuments > 0 }
