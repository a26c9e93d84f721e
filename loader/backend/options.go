package backend

import (
	"time"

	"loaderd/loader/mixture"
)

// Options are the settings of a Run that do not affect its plan's content. They decide when steps are served, never
// what is in them.
type Options struct {
	// Ahead is the maximum number of steps planned beyond those that readers have requested.
	Ahead int `koanf:"ahead"`
	// CacheBytes bounds the tokens kept for assembling rows.
	CacheBytes int64 `koanf:"cache_bytes"`
	// TokenStore configures the cache of tokenized documents on the local disk.
	TokenStore TokenStore `koanf:"token_store"`
	// StallTimeout is how long a reader waits for a step, and a request for its record, before the cause is returned as an
	// error.
	StallTimeout time.Duration `koanf:"stall_timeout"`
	// CheckpointSteps is the number of steps between two stored planner states. 0 stores none; a restart then replays from
	// the start.
	CheckpointSteps int `koanf:"checkpoint_steps"`
	// IdleReaderTimeout is how long a reader may leave a planned step unrequested before it is dropped. A dropped reader
	// no longer holds back its job's ranks or retention. 0 never drops one.
	IdleReaderTimeout time.Duration `koanf:"idle_reader_timeout"`
	// Linger is how long the document stream must be quiet, while a reader waits, before the buffered documents are
	// packed for it as by Flush. 0 never.
	Linger time.Duration `koanf:"linger"`
	// FirstStepQuiet and FirstStepDocuments are the bounds of an early flush. Until the shuffle window has filled, the
	// buffered documents are packed for a waiting reader as by Flush. The first is how long the document stream must be
	// quiet, the second how many documents must have arrived. 0 never.
	FirstStepQuiet     time.Duration `koanf:"first_step_quiet"`
	FirstStepDocuments int64         `koanf:"first_step_documents"`
	// Retention selects the retention of documents that neither an uncommitted step nor a restart needs: keep or purge.
	Retention string `koanf:"retention"`
	// PurgeDelay is how long such documents are kept before they are purged.
	PurgeDelay time.Duration `koanf:"purge_delay"`
	// ForecastInterval is the interval between two estimates of the run's number of steps. 0 never estimates it.
	ForecastInterval time.Duration `koanf:"forecast"`
	// MeasureTokens bounds the estimated remaining tokens up to which a run is measured without a request, once all its
	// sources are sealed. Its number of steps is then exact.
	MeasureTokens mixture.Tokens `koanf:"measure_tokens"`
}

// TokenStore configures a cache of tokenized documents.
type TokenStore struct {
	// Dir is its folder; empty selects one.
	Dir string `koanf:"dir"`
	// MaxBytes bounds its size, besides a share of the free disk space. 0 disables the cache.
	MaxBytes int64 `koanf:"max_bytes"`
}

// FlushesEarly reports whether one of the bounds of an early flush is set.
func (o *Options) FlushesEarly() bool { return o.FirstStepQuiet > 0 || o.FirstStepDocuments > 0 }
