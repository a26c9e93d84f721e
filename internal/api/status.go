package api

import (
	"time"

	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// Status is the response to status: the state of a run, as a sentence and as values. It is displayed by the live
// page, commands and trainers. All daemons of a run return the same values, except for Daemon and May. Shares are
// from 0 to 1; those of sources are of what ShareUnit names. Times are RFC 3339.
type Status struct {
	Run         string            `json:"run"`
	ID          string            `json:"run_id"`
	Fingerprint string            `json:"fingerprint"`
	Time        time.Time         `json:"time"`    // of the values
	Daemon      string            `json:"daemon"`  // the responding daemon
	Version     string            `json:"version"` // of that daemon
	Verdict     diagnosis.Verdict `json:"verdict"`

	Planned   uint64        `json:"planned_steps"`
	Sent      *uint64       `json:"sent_steps"`     // to every rank of the furthest job; nil before any rank
	Consumed  *uint64       `json:"consumed_steps"` // by the trainers of these ranks; nil before any rank
	Ended     bool          `json:"ended"`
	Committed uint64        `json:"committed_step"`
	Oldest    uint64        `json:"oldest_step"` // the oldest step that can be read
	Length    *state.Length `json:"length,omitempty"`
	// estimated time until the last step is read, at the recent rate; nil if unknown
	EndsIn *float64 `json:"ends_in_seconds,omitempty"`

	Rates   Rates              `json:"rates"`
	Flow    []Stage            `json:"flow"` // from the producers to the jobs' checkpoints
	Sources []SourceStatus     `json:"sources,omitempty"`
	Streams []state.StreamFill `json:"streams,omitempty"` // of the run, in the order of their sources
	SourceDetails
	StepSizes
	Packing PackingStatus `json:"packing"`
	JobDetails
	// of all daemons, at most MaxRanks, those furthest behind
	Ranks     []RankStatus   `json:"ranks"`
	RankCount int            `json:"ranks_total"` // number of ranks
	Commits   []JobCommit    `json:"commits"`
	Daemons   []DaemonStatus `json:"daemons"`
	UnusedDocuments
	Dead           DeadStatus `json:"dead_letters"`
	Events         []Event    `json:"events"` // the last MaxEvents, newest first
	AllowedActions []string   `json:"may"`    // the actions that the caller may request
}

// StepSizes are the sizes of steps.
type StepSizes struct {
	Buckets  []BucketStatus  `json:"buckets"`
	Schedule *ScheduleStatus `json:"schedule,omitempty"` // nil if all steps have the same size
}

// ScheduleStatus is the progress of a run through the phases of its steps, as far as they are planned.
type ScheduleStatus struct {
	Phase int   `json:"phase"` // index of the phase of the next step
	Rows  []int `json:"rows"`  // of the next step, per bucket
	// Buckets are the row lengths of the next step in tokens. Without a phase that changes the row lengths of the run,
	// they are empty here and in Phases.
	Buckets []int  `json:"buckets,omitempty"`
	Steps   uint64 `json:"steps"`  // so far, with those of the runs from which the run was forked
	Tokens  int64  `json:"tokens"` // of documents in these steps
	// NextChange is the next change of the size of steps; nil if none follows.
	NextChange *runconfig.ScheduleChange `json:"next_change,omitempty"`
	// Phases are the current phase and at most MaxPhases-1 others: as many of the preceding ones as fit.
	Phases     []SchedulePhase `json:"phases"`
	PhaseCount int             `json:"phases_total"`
}

// SchedulePhase is a phase with its index.
type SchedulePhase struct {
	Index int `json:"index"`
	runconfig.ScheduledPhase
}

// UnusedDocuments are the documents that the run does not use.
type UnusedDocuments struct {
	// by reason; reasons without documents are omitted
	Skipped []SkippedStatus `json:"skipped"`
	// Filters are the filter of all documents, and the sources with a filter or filtered documents: at most MaxFilters,
	// those with the most filtered documents. Without a filter and filtered documents they are empty.
	Filters     []FilterStatus `json:"filters,omitempty"`
	FilterCount int            `json:"filters_total,omitempty"`
}

// FilterStatus is a filter in effect, and the documents that filters have rejected.
type FilterStatus struct {
	Source string `json:"source"` // empty: the filter of all documents
	Where  string `json:"where"`  // the expression, empty for none; of many long ones a part and "..."
	// Documents are those of the source, or of all sources, that this or the other filter has rejected.
	Documents int64 `json:"documents"`
}

// SourceDetails are values about all sources of a run.
type SourceDetails struct {
	// ShareUnit is what the shares of sources are shares of, if not of tokens.
	ShareUnit mixture.ShareUnit `json:"share_unit,omitzero"`
	Pulls     []PullStatus      `json:"pulls,omitempty"` // of pulled sources
}

// FullestStream returns the document stream that is closest to its limit, nil if no stream has a limit.
func (s *Status) FullestStream() (most *state.StreamFill) {
	share := func(f *state.StreamFill) float64 { return float64(f.Bytes) / float64(f.MaxBytes) }
	for i := range s.Streams {
		if f := &s.Streams[i]; f.MaxBytes > 0 && (most == nil || share(f) > share(most)) {
			most = f
		}
	}
	return most
}

// SkippedStatus counts documents that are not used, by reason.
type SkippedStatus struct {
	Reason    string `json:"reason"` // undecodable, empty, masked, duplicate, split, short, long, filtered
	Documents int64  `json:"documents"`
	Text      string `json:"text"` // words after the number
	Do        string `json:"do"`   // advice for the operator
}

// PullStatus is the progress of a source that is filled from object stores.
type PullStatus struct {
	Source    string    `json:"source"`
	From      []string  `json:"from"`         // patterns, without secrets
	Objects   int       `json:"objects"`      // in the listing
	Read      int       `json:"objects_read"` // completely
	Bytes     int64     `json:"bytes"`        // stored size of the objects
	BytesRead int64     `json:"bytes_read"`
	Documents int64     `json:"documents"` // added to the stream
	LeftOut   int64     `json:"left_out"`  // lines, rows and objects that are not documents
	Complete  bool      `json:"complete"`
	Puller    string    `json:"puller,omitempty"`  // the daemon that pulls
	Trouble   string    `json:"trouble,omitempty"` // the problem that stops the pull, if any
	Waits     string    `json:"waits,omitempty"`   // why the pull waits without a problem
	Rate      float64   `json:"bytes_per_second"`
	At        time.Time `json:"at"`
	Says      string    `json:"sentence"`
}

// Limits of a Status.
const (
	MaxRanks   = 256
	MaxEvents  = 100
	MaxPhases  = 64
	MaxFilters = 64
)

// Rates are the recent rates of a run, including the throughput to ranks.
type Rates struct {
	state.Rates
	Bytes float64 `json:"bytes"` // sent to ranks, per second
}

// Names of the stages of a Flow, in order.
const (
	StagePublished = "published" // documents taken by the run, of those in the streams
	StageTokenized = "tokenized" // bytes of documents that are fetched but not planned, tokenized or not
	StagePool      = "pool"      // pieces
	// pieces of finished rows in the holdback; omitted without one
	StageHeld      = "held"
	StageWindow    = "window"    // atoms in the shuffle window
	StageQueues    = "queues"    // rows waiting for a step
	StageAhead     = "ahead"     // steps planned beyond those requested by ranks
	StageRead      = "read"      // steps that all ranks have consumed, of the planned steps
	StageCommitted = "committed" // steps that all jobs have committed, of the planned steps
)

// Stage is a stage of a run at which documents are buffered, as a progress bar.
type Stage struct {
	Name       string  `json:"name"`
	Value      float64 `json:"value"`
	Limit      float64 `json:"of"`               // value of the full bar; 0 without a limit
	Unit       string  `json:"unit"`             // documents, bytes, pieces, atoms, rows, steps
	Rate       float64 `json:"rate"`             // of the stage's output, per second
	RateUnit   string  `json:"rate_unit"`        // documents, tokens, rows, steps
	Bottleneck bool    `json:"limits,omitempty"` // the bottleneck of the run
}

// SourceStatus is a source of a run.
type SourceStatus struct {
	Name        string     `json:"name"`
	Target      float64    `json:"target"`       // target share
	Share       *float64   `json:"share"`        // of all that was taken; null before the first
	Recent      *float64   `json:"recent_share"` // of the recent steps; null before the first
	Tokens      int64      `json:"tokens"`       // taken
	Emitted     int64      `json:"emitted"`      // in steps
	Epoch       uint64     `json:"epoch"`
	Epochs      string     `json:"epochs"`
	Documents   int64      `json:"documents"` // taken, used or not
	Undecodable int64      `json:"undecodable"`
	LeftOut     int64      `json:"left_out"` // unused documents, for any reason
	Stored      uint64     `json:"stored"`   // sequence of the last document in its stream
	Start       uint64     `json:"start"`    // sequence of the run's first document
	Next        uint64     `json:"next"`     // sequence of the next document; 0 after the last one
	DrySince    *time.Time `json:"dry_since,omitempty"`
	DownSince   *time.Time `json:"down_since,omitempty"`
	Sealed      bool       `json:"sealed,omitempty"`
	Paused      bool       `json:"paused,omitempty"`
	Removed     bool       `json:"removed,omitempty"`
	Exhausted   bool       `json:"exhausted,omitempty"`
}

// BucketStatus is the state of a row length.
type BucketStatus struct {
	Bucket      int   `json:"bucket"` // tokens of a row
	Steps       int64 `json:"steps"`  // since the last change of the row lengths
	Rows        int   `json:"rows"`   // rows waiting for a step
	RowsPerStep int   `json:"of"`     // rows of a step
}

// PackingStatus contains the packing metrics of the run so far. Shares are from 0 to 1.
type PackingStatus struct {
	Method   string  `json:"method"`
	Padding  float64 `json:"padding"`  // of the tokens of rows
	Split    float64 `json:"split"`    // documents in more than one piece, of those packed
	Dropped  int64   `json:"dropped"`  // tokens
	Repeated int64   `json:"repeated"` // tokens
	AgeMax   int64   `json:"age_max"`  // documents
	WaitMax  int64   `json:"wait_max"` // documents
	// the method's own counters, such as how rows of splice ended
	Counts map[string]int64 `json:"method_counts,omitempty"`
}

// JobDetails are the jobs, and the changes of their world sizes that wait for ranks.
type JobDetails struct {
	Jobs    []JobStatus    `json:"jobs"`
	Resizes []ResizeStatus `json:"resizes,omitempty"`
}

// JobStatus describes the ranks of a job with one world size.
type JobStatus struct {
	Job     string `json:"job"`
	World   int    `json:"world"`
	Present int    `json:"present"` // ranks
	// first step with this world size, if its ranks agreed on it during the run
	SinceStep   *uint64 `json:"since_step,omitempty"`
	Missing     []int   `json:"missing,omitempty"` // ranks that are not present, the first ones
	MinConsumed uint64  `json:"least"`             // steps consumed by the rank furthest behind
	MaxConsumed uint64  `json:"most"`              // steps consumed by the furthest rank
	Sent        uint64  `json:"sent_steps"`        // to the rank that was sent least
	// its clients report their consumption; else Least and Most are steps sent
	ReportsConsumption bool `json:"reports"`
	// reading, or the RankStatus.State of the ranks that delay the job
	State    string `json:"state"`
	Failing  bool   `json:"failing,omitempty"`  // the job cannot continue without help
	Sentence string `json:"sentence,omitempty"` // which ranks delay the job
}

// ResizeStatus is a change of a job's world size that waits for ranks.
type ResizeStatus struct {
	state.PendingResize
	Sentence string `json:"sentence"` // which ranks it waits for, and how long
}

// StateReading is the RankStatus.State of a rank that is not missing.
const StateReading = "reading"

// Units of RankStatus.Consumed.
const (
	UnitRead = "read" // by the trainer, as its client reports
	UnitSent = "sent" // by the daemon, because the client does not report
)

// RankStatus is a process that reads as a rank, or a rank that is missing from its job.
type RankStatus struct {
	Job          string    `json:"job"`
	Rank         int       `json:"rank"`
	World        int       `json:"world"`
	Peer         int       `json:"peer,omitempty"`     // number of the process, if several read as one rank
	State        string    `json:"state"`              // reading, absent, silent, stuck or left
	StateSeconds float64   `json:"state_seconds"`      // time in its state, if not reading
	Unit         string    `json:"unit"`               // of Consumed: read or sent
	Consumed     uint64    `json:"consumed"`           // steps
	Buffered     uint64    `json:"buffered,omitempty"` // steps sent that the trainer has not taken
	Streams      int       `json:"streams"`            // open streams
	Sent         uint64    `json:"sent_steps"`
	Lag          uint64    `json:"lag"`      // by how many steps it is behind its job's furthest rank
	WaitP50      float64   `json:"wait_p50"` // wait for a step in seconds, over the last minute
	WaitP99      float64   `json:"wait_p99"`
	Bytes        float64   `json:"bytes"` // per second, over the last ten seconds
	Since        time.Time `json:"since"` // time of its first stream
	Identity     string    `json:"identity,omitempty"`
	Address      string    `json:"address"`
	Daemon       string    `json:"daemon"` // the daemon that serves it
}

// JobCommit is a training job that stores checkpoints.
type JobCommit struct {
	Job  string `json:"job"`
	Step uint64 `json:"step"` // its checkpoint covers all steps before this one
	// Skipped is how many of these steps the job has skipped.
	Skipped uint64 `json:"skipped,omitempty"`
}

// DaemonStatus is a daemon of the run.
type DaemonStatus struct {
	Name          string  `json:"name"`
	Flight        string  `json:"flight,omitempty"` // Flight address for ranks
	HTTP          string  `json:"http,omitempty"`   // address of its page
	Version       string  `json:"version,omitempty"`
	IsLeader      bool    `json:"leads"`
	Term          uint64  `json:"term,omitempty"` // of the leader
	Ranks         int     `json:"ranks"`
	Bytes         float64 `json:"bytes"`          // sent per second
	SilentSeconds float64 `json:"silent_seconds"` // since its last heartbeat
}

// DeadStatus counts documents that could not be decoded.
type DeadStatus struct {
	Total   int64        `json:"total"`   // in the dead-letter streams
	Waiting int          `json:"waiting"` // not stored yet
	Reasons []DeadReason `json:"reasons"` // most letters first
}

// DeadReason counts the dead letters of one reason.
type DeadReason struct {
	Reason  string       `json:"reason"`
	Letters int64        `json:"letters"`
	Samples []DeadSample `json:"samples"` // the newest
}

// DeadSample is a dead letter.
type DeadSample struct {
	Letter   uint64    `json:"letter"` // its sequence among the dead letters
	Source   string    `json:"source,omitempty"`
	Sequence uint64    `json:"sequence"` // of the document
	Subject  string    `json:"subject"`
	Problem  string    `json:"problem"`
	Time     time.Time `json:"time"`
}

// Event is an event of a run.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // reader, leader, weights, seal, flush, warning, error
	Text   string    `json:"text"`
	Do     string    `json:"do,omitempty"`
	Daemon string    `json:"daemon"`
}

// History is the response to history: the course of a run, in bounded memory. The series by step cover the whole run
// and are the same on all daemons, because they are computed from the plan. The series by time cover what this daemon
// has observed. Lists of the same length belong together, with one entry per point.
type History struct {
	Run     string   `json:"run"`
	Sources []string `json:"sources,omitempty"` // by number
	// ShareUnit is what the shares of sources are shares of, if not of tokens.
	ShareUnit mixture.ShareUnit `json:"share_unit,omitzero"`
	Buckets   []int             `json:"buckets"` // row lengths
	// number of counted steps; fewer than planned while a new daemon reads the plan
	KnownSteps  uint64     `json:"known_steps"`
	Steps       StepSeries `json:"steps"`        // the whole run
	RecentSteps StepSeries `json:"recent_steps"` // the newest steps, one per point
	Times       TimeSeries `json:"times"`        // since the start of the daemon
	RecentTimes TimeSeries `json:"recent_times"` // the last ten minutes, one second per point
	Marks       []Mark     `json:"marks"`        // changes of the run, oldest first
	Lengths     []int64    `json:"lengths"`      // pieces of the whole run: [0] of 1 token, [i] of 2^(i-1)+1 to 2^i
}

// StepSeries are points of Width steps each; point i begins at step First[i].
type StepSeries struct {
	Width   uint64     `json:"width"`
	First   []uint64   `json:"first"`
	Steps   []uint64   `json:"steps"`   // in the point; the last one may have fewer than Width
	Buckets [][]uint64 `json:"buckets"` // steps per bucket
	Slots   []int64    `json:"slots"`   // tokens of the rows, including padding
	Tokens  []int64    `json:"tokens"`  // without padding
	Pieces  []int64    `json:"pieces"`
	// pieces that continue a document, that is, parts of split documents
	Continued []int64 `json:"continued"`
	// maximum number of documents that arrived between a piece and its step; for a run with one source
	Age []uint64 `json:"age,omitempty"`
	// maximum number of documents that arrived since the oldest one that a later step needs
	Waits   []uint64    `json:"waits"`
	Sources [][]int64   `json:"sources,omitempty"` // tokens per source, in the unit of the shares
	Targets [][]float64 `json:"targets,omitempty"` // target share per source
	P10     []int       `json:"length_p10"`        // of the lengths of pieces, in tokens
	P50     []int       `json:"length_p50"`
	P90     []int       `json:"length_p90"`
}

// TimeSeries are points of Seconds seconds each.
type TimeSeries struct {
	Seconds   float64     `json:"seconds"`
	At        []time.Time `json:"at"` // end of each point
	Planned   []uint64    `json:"planned_steps"`
	Read      []uint64    `json:"read_steps"`
	Committed []uint64    `json:"committed_steps"`
	Tokens    []float64   `json:"tokens"`    // per second
	Documents []float64   `json:"documents"` // per second
	Published []float64   `json:"published"` // documents per second
	Bytes     []float64   `json:"bytes"`     // per second
	// share of the time in which a rank waited for a step that was not planned; nil if no rank read
	Waiting []*float64 `json:"waiting"`
	Health  []string   `json:"health"` // the worst
	Split   []float64  `json:"split"`  // documents in more than one piece, of those packed in the interval
	// splice: rows that did not run out of related documents, of those packed in the interval
	Related []float64 `json:"related,omitempty"`
}

// Mark is a change of a run at a step.
type Mark struct {
	Step uint64 `json:"step"`
	Kind string `json:"kind"` // weights, seal, flush, leader, end
	Text string `json:"text"`
}

// DocumentText is the response to text, and to peek with one per document: a document as stored in its stream, split at
// token boundaries.
type DocumentText struct {
	document.Info
	Skip   string  `json:"skip,omitempty"` // why it is not used, as far as the document shows: empty, undecodable, split
	Total  int     `json:"total_tokens"`   // of the document, including the end-of-document token
	Start  int     `json:"start"`          // index of the first token below
	Tokens []int32 `json:"tokens"`
	// text of each token, invalid UTF-8 bytes as \\xE4; none without a tokenizer
	Texts   []string `json:"texts,omitempty"`
	Problem string   `json:"problem,omitempty"` // of an undecodable document
}
