package api

import (
	"time"

	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/state"
)

// Status answers status: how a run does, in a sentence and in figures. The live page, the commands and trainers show
// it; it is the same whichever daemon of the run is asked, but for Daemon and May. Shares are of tokens, from 0 to 1;
// times are RFC 3339.
type Status struct {
	Run         string            `json:"run"`
	ID          string            `json:"run_id"`
	Fingerprint string            `json:"fingerprint"`
	Time        time.Time         `json:"time"`    // of the figures
	Daemon      string            `json:"daemon"`  // that answers
	Version     string            `json:"version"` // of that
	Verdict     diagnosis.Verdict `json:"verdict"`

	Planned   uint64        `json:"planned_steps"`
	Sent      *uint64       `json:"sent_steps"`     // that every rank of the job furthest on was sent; nil before any rank
	Consumed  *uint64       `json:"consumed_steps"` // that their trainers have consumed; nil before any rank
	Ended     bool          `json:"ended"`
	Committed uint64        `json:"committed_step"`
	Oldest    uint64        `json:"oldest_step"` // that can be read
	Length    *state.Length `json:"length,omitempty"`
	// until the last step is read, at the rate of late; nil where that is not known
	EndsIn *float64 `json:"ends_in_seconds,omitempty"`

	Rates   Rates              `json:"rates"`
	Flow    []Stage            `json:"flow"` // from the producers to the trainers' checkpoints
	Sources []SourceStatus     `json:"sources,omitempty"`
	Streams []state.StreamFill `json:"streams,omitempty"` // of the run, in the order of their sources
	Pulls   []PullStatus       `json:"pulls,omitempty"`   // of sources that daemons fill themselves
	Buckets []BucketStatus     `json:"buckets"`
	Packing PackingStatus      `json:"packing"`
	Jobs    []JobStatus        `json:"jobs"`
	// of all daemons; the MaxRanks that are furthest behind where there are more
	Ranks   []RankStatus   `json:"ranks"`
	Readers int            `json:"ranks_total"` // all of them
	Keepers []KeeperStatus `json:"keepers"`
	Daemons []DaemonStatus `json:"daemons"`
	// documents that are not used, by reason; reasons without documents are left out
	Skipped []SkippedStatus `json:"skipped"`
	Dead    DeadStatus      `json:"dead_letters"`
	Events  []Event         `json:"events"` // the last MaxEvents, newest first
	May     []string        `json:"may"`    // the actions that whoever asks may ask for
}

// FullestStream returns the document stream that uses most of its bound; nil where no stream has one.
func (s *Status) FullestStream() (most *state.StreamFill) {
	share := func(f *state.StreamFill) float64 { return float64(f.Bytes) / float64(f.MaxBytes) }
	for i := range s.Streams {
		if f := &s.Streams[i]; f.MaxBytes > 0 && (most == nil || share(f) > share(most)) {
			most = f
		}
	}
	return most
}

// SkippedStatus is a reason for which documents are not used.
type SkippedStatus struct {
	Reason    string `json:"reason"` // undecodable, empty, masked, duplicate, split, short, long
	Documents int64  `json:"documents"`
	Text      string `json:"text"` // words behind the number
	Do        string `json:"do"`   // what an operator does about it
}

// PullStatus is how far a document stream is filled with objects elsewhere.
type PullStatus struct {
	Source    string    `json:"source"`
	From      []string  `json:"from"`         // patterns, without secrets
	Objects   int       `json:"objects"`      // in the listing
	Read      int       `json:"objects_read"` // to their ends
	Bytes     int64     `json:"bytes"`        // of the objects, as they are stored
	BytesRead int64     `json:"bytes_read"`
	Documents int64     `json:"documents"` // put into the stream
	LeftOut   int64     `json:"left_out"`  // lines, rows and objects that are none
	Complete  bool      `json:"complete"`
	Puller    string    `json:"puller,omitempty"`  // the daemon that does it
	Trouble   string    `json:"trouble,omitempty"` // why nothing comes, where something is wrong
	Waits     string    `json:"waits,omitempty"`   // why nothing comes, where nothing is
	Rate      float64   `json:"bytes_per_second"`
	At        time.Time `json:"at"`
	Says      string    `json:"sentence"`
}

// Bounds of a Status.
const (
	MaxRanks  = 256
	MaxEvents = 100
)

// Rates are how fast a run gets on, with what ranks are sent.
type Rates struct {
	state.Rates
	Bytes float64 `json:"bytes"` // sent to ranks, a second
}

// Names of the stages of a Flow, in order.
const (
	StagePublished = "published" // documents that the run has taken, of those that the streams hold
	StageTokenized = "tokenized" // bytes of documents that are fetched, tokenized or not, and not planned yet
	StagePool      = "pool"      // pieces
	// pieces of finished rows that are held back for short documents; left out where none can be
	StageHeld      = "held"
	StageWindow    = "window"    // atoms in the shuffle window
	StageQueues    = "queues"    // rows that wait for a step
	StageAhead     = "ahead"     // steps planned beyond those that ranks asked for
	StageRead      = "read"      // steps that all ranks have, of those planned
	StageCommitted = "committed" // steps that all keepers have committed, of those planned
)

// Stage is one of the places where a run's documents wait, as a bar that fills.
type Stage struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Of     float64 `json:"of"`               // when the bar is full; 0 where nothing bounds it
	Unit   string  `json:"unit"`             // documents, bytes, pieces, atoms, rows, steps
	Rate   float64 `json:"rate"`             // of what leaves it, a second
	Leaves string  `json:"rate_unit"`        // documents, tokens, rows, steps
	Limits bool    `json:"limits,omitempty"` // what the others wait for
}

// SourceStatus is a source of a run.
type SourceStatus struct {
	Name        string     `json:"name"`
	Target      float64    `json:"target"`       // share that it is to have
	Share       *float64   `json:"share"`        // of all tokens taken; null before the first
	Recent      *float64   `json:"recent_share"` // of the last steps; null before the first
	Tokens      int64      `json:"tokens"`       // taken
	Emitted     int64      `json:"emitted"`      // in steps
	Epoch       uint64     `json:"epoch"`
	Epochs      string     `json:"epochs"`
	Documents   int64      `json:"documents"` // taken, used or not
	Undecodable int64      `json:"undecodable"`
	LeftOut     int64      `json:"left_out"` // documents that are not used, for whatever reason
	Stored      uint64     `json:"stored"`   // sequence of the last document in its stream
	Start       uint64     `json:"start"`    // sequence of the document that the run began with
	Next        uint64     `json:"next"`     // sequence that is taken next; 0 behind the last one
	DrySince    *time.Time `json:"dry_since,omitempty"`
	DownSince   *time.Time `json:"down_since,omitempty"`
	Sealed      bool       `json:"sealed,omitempty"`
	Resting     bool       `json:"resting,omitempty"`
	Removed     bool       `json:"removed,omitempty"`
	UsedUp      bool       `json:"used_up,omitempty"`
}

// BucketStatus is a row length.
type BucketStatus struct {
	Bucket int   `json:"bucket"` // tokens of a row
	Steps  int64 `json:"steps"`
	Rows   int   `json:"rows"` // that wait
	Of     int   `json:"of"`   // rows of a step
}

// PackingStatus is how well the run packs so far. Shares are from 0 to 1.
type PackingStatus struct {
	Method   string  `json:"method"`
	Padding  float64 `json:"padding"`  // of the tokens of rows
	Split    float64 `json:"split"`    // documents in more than one piece, of those packed
	Dropped  int64   `json:"dropped"`  // tokens
	Repeated int64   `json:"repeated"` // tokens
	AgeMax   int64   `json:"age_max"`  // documents
	WaitMax  int64   `json:"wait_max"` // documents
	// what the method itself counts, such as how rows of splice ended
	Counts map[string]int64 `json:"method_counts,omitempty"`
}

// JobStatus describes the ranks of a job with one world size.
type JobStatus struct {
	Job     string `json:"job"`
	World   int    `json:"world"`
	Present int    `json:"present"`           // ranks
	Missing []int  `json:"missing,omitempty"` // numbers of ranks that are not present, the first ones
	Least   uint64 `json:"least"`             // steps consumed by the rank that is furthest behind
	Most    uint64 `json:"most"`              // by the one that is furthest on
	Sent    uint64 `json:"sent_steps"`        // to the rank that was sent least
	// its clients report what their trainers have taken; else Least and Most are steps sent
	Reports  bool   `json:"reports"`
	State    string `json:"state"`              // reading, or what ranks that hold the others are: as RankStatus.State
	Failing  bool   `json:"failing,omitempty"`  // the job cannot continue without help
	Sentence string `json:"sentence,omitempty"` // which ranks hold the others
}

// StateReading is the RankStatus.State of a rank that is not missing.
const StateReading = "reading"

// Units of RankStatus.Consumed.
const (
	UnitRead = "read" // by the trainer, as the client reports
	UnitSent = "sent" // by the daemon: the client does not report
)

// RankStatus is a process that reads, or that its job misses.
type RankStatus struct {
	Job      string    `json:"job"`
	Rank     int       `json:"rank"`
	World    int       `json:"world"`
	Peer     int       `json:"peer,omitempty"`     // of several processes that read as one rank
	State    string    `json:"state"`              // reading, absent, silent, stuck or left
	StateFor float64   `json:"state_seconds"`      // for which it has been in its state, where that is not reading
	Unit     string    `json:"unit"`               // of Consumed: read or sent
	Consumed uint64    `json:"consumed"`           // steps
	Buffered uint64    `json:"buffered,omitempty"` // steps sent that the trainer has not taken
	Streams  int       `json:"streams"`            // open ones
	Sent     uint64    `json:"sent_steps"`
	Lag      uint64    `json:"lag"`      // steps that it has consumed less than the furthest rank of its job
	WaitP50  float64   `json:"wait_p50"` // seconds that it waited for a step, of the last minute
	WaitP99  float64   `json:"wait_p99"`
	Bytes    float64   `json:"bytes"` // a second, of the last ten
	Since    time.Time `json:"since"` // when it came
	Who      string    `json:"identity,omitempty"`
	Address  string    `json:"address"`
	Daemon   string    `json:"daemon"` // that serves it
}

// KeeperStatus is a trainer that keeps checkpoints.
type KeeperStatus struct {
	Keeper string `json:"keeper"`
	Step   uint64 `json:"step"` // before which its own checkpoint covers all
}

// DaemonStatus is a daemon of the run.
type DaemonStatus struct {
	Name    string  `json:"name"`
	Flight  string  `json:"flight,omitempty"` // where ranks find it
	HTTP    string  `json:"http,omitempty"`   // where its page is
	Version string  `json:"version,omitempty"`
	Leads   bool    `json:"leads"`
	Term    uint64  `json:"term,omitempty"` // of the one that leads
	Ranks   int     `json:"ranks"`
	Bytes   float64 `json:"bytes"`          // sent a second
	Silent  float64 `json:"silent_seconds"` // since it was heard last
}

// DeadStatus are documents that could not be decoded.
type DeadStatus struct {
	Total   int64        `json:"total"`   // that the streams of dead letters hold
	Waiting int          `json:"waiting"` // to be stored
	Reasons []DeadReason `json:"reasons"` // most letters first
}

// DeadReason are the dead letters of one reason.
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

// Event is something that happened to a run.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // reader, leader, weights, seal, drain, warning, error
	Text   string    `json:"text"`
	Do     string    `json:"do,omitempty"`
	Daemon string    `json:"daemon"`
}

// History answers history: how a run went, in bounded memory. By step it covers the whole run, whichever daemon is
// asked, since it is counted from the plan; by time what this daemon has seen. Lists of one length belong together, an
// entry a point.
type History struct {
	Run     string   `json:"run"`
	Sources []string `json:"sources,omitempty"` // by number
	Buckets []int    `json:"buckets"`           // row lengths
	// that have been counted; less than are planned while a daemon that has just started reads the plan
	Known   uint64     `json:"known_steps"`
	Steps   StepSeries `json:"steps"`        // the whole run
	Lately  StepSeries `json:"recent_steps"` // the last steps, each
	Times   TimeSeries `json:"times"`        // since the daemon began
	Minutes TimeSeries `json:"recent_times"` // the last ten minutes, by seconds
	Marks   []Mark     `json:"marks"`        // what changed the run, oldest first
	Lengths []int64    `json:"lengths"`      // pieces of the whole run: [0] of 1 token, [i] of 2^(i-1)+1 to 2^i
}

// StepSeries are points of Width steps each; point i begins at step First[i].
type StepSeries struct {
	Width   uint64     `json:"width"`
	First   []uint64   `json:"first"`
	Steps   []uint64   `json:"steps"`   // in the point: fewer than Width at the end
	Buckets [][]uint64 `json:"buckets"` // by bucket: steps of it
	Slots   []int64    `json:"slots"`   // tokens of the rows, padding included
	Tokens  []int64    `json:"tokens"`  // padding left out
	Pieces  []int64    `json:"pieces"`
	// pieces that go on where one before ended: parts of documents that were split
	Continued []int64 `json:"continued"`
	// documents that came between a piece and its step, at most; of a run with one source
	Age []uint64 `json:"age,omitempty"`
	// documents that came since the oldest one that a later step needs, at most
	Waits   []uint64    `json:"waits"`
	Sources [][]int64   `json:"sources,omitempty"` // by source: tokens
	Targets [][]float64 `json:"targets,omitempty"` // by source: share that it was to have
	P10     []int       `json:"length_p10"`        // of the lengths of pieces, in tokens
	P50     []int       `json:"length_p50"`
	P90     []int       `json:"length_p90"`
}

// TimeSeries are points of Seconds each.
type TimeSeries struct {
	Seconds   float64     `json:"seconds"`
	At        []time.Time `json:"at"` // end of each point
	Planned   []uint64    `json:"planned_steps"`
	Read      []uint64    `json:"read_steps"`
	Committed []uint64    `json:"committed_steps"`
	Tokens    []float64   `json:"tokens"`    // a second
	Documents []float64   `json:"documents"` // a second
	Published []float64   `json:"published"` // documents a second
	Bytes     []float64   `json:"bytes"`     // a second
	// part of the time in which a rank waited for a step that was not planned; nil where no rank read
	Waiting []*float64 `json:"waiting"`
	Health  []string   `json:"health"` // the worst
	Split   []float64  `json:"split"`  // documents in more than one piece, of those packed in the point
	// splice: rows that did not run out of related documents, of those packed in the point
	Related []float64 `json:"related,omitempty"`
}

// Mark is a change of a run at a step.
type Mark struct {
	Step uint64 `json:"step"`
	Kind string `json:"kind"` // weights, seal, drain, leader, end
	Text string `json:"text"`
}

// Text answers text, and peek with one for each document: a document as it stands in its stream, cut at the borders of
// its tokens.
type Text struct {
	document.Info
	Skip   string  `json:"skip,omitempty"` // why it is not used, as far as the document tells: empty, undecodable, split
	Total  int     `json:"total_tokens"`   // of the document, the end-of-document token included
	Start  int     `json:"start"`          // first of the tokens below
	Tokens []int32 `json:"tokens"`
	// what each token stands for, bytes that are no UTF-8 as \\xE4; none without a tokenizer
	Texts   []string `json:"texts,omitempty"`
	Problem string   `json:"problem,omitempty"` // of an undecodable document
}
