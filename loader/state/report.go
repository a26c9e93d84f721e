package state

import (
	"fmt"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
)

// Report is the state of a leader, which explains why a step is not planned yet. It may come from another process.
type Report struct {
	PlanStats PlanStats `json:"plan"`
	Steps     uint64    `json:"steps"` // number in the plan
	// FirstUnrequested is the first step that no reader has ever requested.
	FirstUnrequested uint64 `json:"wanted"`
	// SlowestReader is the slowest reader of the furthest job; nil without readers.
	SlowestReader *ReaderStat `json:"slowest,omitempty"`
	// Source is the status of the reader that the planner waits for or reads; nil before the document stream is open.
	// While Opening is set, it belongs to the previous source.
	Source  *document.SourceStatus           `json:"source,omitempty"`
	Sources map[string]document.SourceStatus `json:"sources,omitempty"` // by name
	// Opening is the stream that is being opened; nil if none is.
	Opening   *Opening      `json:"opening,omitempty"`
	SourceAge time.Duration `json:"reading,omitempty"` // how long Source has been open
	// IdleTime is the time since a document was fetched or planned, else Reading.
	IdleTime   time.Duration       `json:"idle,omitempty"`
	Connection *backend.Connection `json:"connection,omitempty"` // of the leader to the servers; nil if unknown
	// LeaseWait is how long an append has waited for the lease to be renewed.
	LeaseWait       time.Duration `json:"renewing,omitempty"`
	AppendTime      time.Duration `json:"storing,omitempty"` // duration of the pending append
	Replaying       bool          `json:"replays,omitempty"`
	StreamProblem   string        `json:"trouble,omitempty"`
	StreamFills     []StreamFill  `json:"streams,omitempty"` // in the order of source numbers
	CheckpointStep  uint64        `json:"checkpointed"`
	CheckpointBytes int64         `json:"checkpoint_bytes"`
	Length          *Length       `json:"length,omitempty"`
	// Resizes are changes of world sizes that wait for ranks, at most 16.
	Resizes []PendingResize `json:"resizes,omitempty"`
	ReportPages
	// Remote reports that the report is from another process, whose readers' address is Flight and whose age is
	// Silent. Unheard reports that no leader is currently known, so the plan may be longer than this process has read.
	Remote        bool          `json:"-"`
	LeaderUnknown bool          `json:"-"`
	FlightAddress string        `json:"-"`
	Age           time.Duration `json:"-"`
}

// ReportPages are the pages that have the per-source parts of a long report.
type ReportPages struct {
	Pages int    `json:"pages,omitempty"` // their number; 0 for none
	Round uint64 `json:"round,omitempty"` // the round of reports to which they belong
}

// Opening is a document stream that is being opened for reading.
type Opening struct {
	Source string    `json:"source"`
	Since  time.Time `json:"since"`
	Error  string    `json:"error,omitempty"` // of the last attempt
}

// StreamName returns a readable name of the document stream.
func (o *Opening) StreamName() string {
	return fmt.Sprintf("the stream of source %q", o.Source)
}

// IsReading reports whether the leader reads the stream that the plan waits for. While it opens another source's
// stream, Source is that of the previous one.
func (r *Report) IsReading() bool { return r.Source != nil && r.Opening == nil }

// ReaderStatus returns the status of the reader that the plan waits for; zero without one.
func (r *Report) ReaderStatus() document.SourceStatus {
	if !r.IsReading() {
		return document.SourceStatus{}
	}
	return *r.Source
}

// IsMultiSource reports whether the run has more than one source. Messages then name the source.
func (r *Report) IsMultiSource() bool { return len(r.PlanStats.Sources) > 1 }

// PublishedDocuments returns the number of documents stored in the run's streams, as far as the leader has observed.
func (r *Report) PublishedDocuments() (n uint64) {
	for _, s := range r.Sources {
		n += s.Last
	}
	return n
}

// HeartbeatTimeout is the time without a heartbeat after which a daemon counts as gone and its readers' demand is
// dropped.
const HeartbeatTimeout = 3 * time.Second

// FirstStepWait is how long a reader must have waited for a step before the number of documents triggers an early
// flush. A corpus that fills the shuffle window sooner is planned without one.
const FirstStepWait = 30 * time.Second
