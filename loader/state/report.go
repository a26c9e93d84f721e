package state

import (
	"fmt"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
)

// Report is what a leader says of itself: it explains why a step is not there yet. It may come from another process.
type Report struct {
	PlanStats PlanStats `json:"plan"`
	Steps     uint64    `json:"steps"` // that the plan holds
	// Wanted is the first step that no reader has ever asked for.
	Wanted uint64 `json:"wanted"`
	// Slowest is the reader that the plan is furthest ahead of; nil without readers.
	Slowest *ReaderStat `json:"slowest,omitempty"`
	// Source is of the reader that the planner waits for or reads; nil before the document stream is open. While
	// Opening is set it is of the source before.
	Source  *document.SourceStatus           `json:"source,omitempty"`
	Sources map[string]document.SourceStatus `json:"sources,omitempty"` // by name
	// Opening is the stream that is being opened; nil without one.
	Opening *Opening      `json:"opening,omitempty"`
	Reading time.Duration `json:"reading,omitempty"` // how long Source has been open
	// Idle is the time since a document was fetched or planned, else Reading.
	Idle       time.Duration       `json:"idle,omitempty"`
	Connection *backend.Connection `json:"connection,omitempty"` // of the leader to the servers; nil if unknown
	// Renewing is how long an append has waited for the lease to be renewed.
	Renewing        time.Duration `json:"renewing,omitempty"`
	Storing         time.Duration `json:"storing,omitempty"` // how long the append under way has taken
	Replays         bool          `json:"replays,omitempty"`
	Trouble         string        `json:"trouble,omitempty"`
	Streams         []StreamFill  `json:"streams,omitempty"` // by the numbers of their sources
	Checkpointed    uint64        `json:"checkpointed"`
	CheckpointBytes int64         `json:"checkpoint_bytes"`
	Length          *Length       `json:"length,omitempty"`
	// Pages is how many pages of this round say what a long report does not have of its single sources; 0 for none.
	Pages int    `json:"pages,omitempty"`
	Round uint64 `json:"round,omitempty"`
	// Elsewhere says that it is the report of another process, Flight where readers find that, and Silent how old it is.
	// Unheard says that none leads at this moment, as far as this process knows: the plan may be longer than it has seen.
	Elsewhere bool          `json:"-"`
	Unheard   bool          `json:"-"`
	Flight    string        `json:"-"`
	Silent    time.Duration `json:"-"`
}

// Opening is a document stream that is being opened for reading.
type Opening struct {
	Source string    `json:"source"`
	Since  time.Time `json:"since"`
	Error  string    `json:"error,omitempty"` // of the last attempt
}

// Stream names the document stream.
func (o *Opening) Stream() string {
	return fmt.Sprintf("the stream of source %q", o.Source)
}

// Reads reports whether the leader reads the stream that the plan waits for. While it opens another source's stream,
// Source is that of the one before.
func (r *Report) Reads() bool { return r.Source != nil && r.Opening == nil }

// Reader returns the status of the reader that the plan waits for; zero without one.
func (r *Report) Reader() document.SourceStatus {
	if !r.Reads() {
		return document.SourceStatus{}
	}
	return *r.Source
}

// Several reports whether the run has more than one source: then the one that is waited for is named.
func (r *Report) Several() bool { return len(r.PlanStats.Sources) > 1 }

// Published returns how many documents the streams of the run have taken, as far as the leader has heard.
func (r *Report) Published() (n uint64) {
	for _, s := range r.Sources {
		n += s.Last
	}
	return n
}

// HeartbeatTimeout is when a daemon without heartbeats counts as gone: what its readers wanted is forgotten.
const HeartbeatTimeout = 3 * time.Second

// FirstStepWait is how long a reader must have waited for a step before the number of documents makes an early drain. A
// corpus that fills the shuffle window sooner is planned without one.
const FirstStepWait = 30 * time.Second
