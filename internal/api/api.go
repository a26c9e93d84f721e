// Package api defines the JSON of the Flight interface: tickets, the metadata of record batches, and the bodies and
// responses of actions. Server, Go client, web page and commands share the definitions. The actions info and stats
// respond with loader.Info and loader.Stats. docs/reference/wire.md describes the interface for other languages: fields
// may be added, but no field may change its name or meaning.
package api

import (
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// CommitResponse is the response to commit and leave: the resulting committed step of the run.
type CommitResponse struct {
	Run  string `json:"run"`
	Step uint64 `json:"committed"` // the checkpoints of all committing jobs cover all steps before this one
}

// CheckpointResponse is the response to checkpoint: the step at which the planner's state is stored.
type CheckpointResponse struct {
	Run  string `json:"run"`
	Step uint64 `json:"step"`
}

// MeasureResponse is the response to measure: the length as known before the measurement, nil if unknown.
type MeasureResponse struct {
	Run    string        `json:"run"`
	Length *state.Length `json:"length,omitempty"`
}

// RecordResponse is the response to seal and flush, which append a record to the plan.
type RecordResponse struct {
	Run      string `json:"run"`
	Sequence uint64 `json:"sequence"`         // of the last document before the record
	Source   string `json:"source,omitempty"` // the document's source, if one source was sealed
}

// FilterResponse is the response to filter: the filters after a change, or those in effect.
type FilterResponse struct {
	Run     string            `json:"run"`
	Step    uint64            `json:"step"`              // the first step that a change made now can affect
	DryRun  bool              `json:"dry_run,omitempty"` // nothing was changed
	Where   string            `json:"where"`             // filter of all documents; empty for none
	Sources map[string]string `json:"sources"`           // filters of sources, without empty ones
	// documents that filters have rejected so far, of all that were read
	Rejected  int64 `json:"rejected_documents"`
	Documents int64 `json:"documents"`
}

// MaxActionBytes is the maximum size of the body of an action in bytes. A daemon rejects larger messages.
const MaxActionBytes = MaxRequestBytes - 1<<10

// MaxRequestBytes is the maximum size in bytes of a message with a ticket or with the name and the body of an action.
const MaxRequestBytes = 64 << 10

// MixResponse is the response to mix. For a change it contains the first step that the change can affect and the
// resulting target shares; otherwise the present state.
type MixResponse struct {
	Run    string             `json:"run"`
	Step   uint64             `json:"step"`              // the first step that a change made now can affect
	DryRun bool               `json:"dry_run,omitempty"` // nothing was changed
	Target map[string]float64 `json:"target"`            // target share per source
	// ShareUnit is what all shares are shares of, if not of tokens.
	ShareUnit mixture.ShareUnit `json:"share_unit,omitzero"`
	// the plan already had a change decided at that number of steps, which was kept
	AlreadyApplied bool `json:"again,omitempty"`

	// Present state, without a change.
	Tokens      int64           `json:"tokens,omitempty"`       // taken so far
	RecentSteps int             `json:"recent_steps,omitempty"` // number of steps of MixtureSource.Recent
	Sources     []MixtureSource `json:"sources,omitempty"`      // by number
}

// ScheduleResponse is the response to schedule.
type ScheduleResponse struct {
	Run      string             `json:"run"`
	Step     uint64             `json:"step"` // the first step that a change made now can affect
	DryRun   bool               `json:"dry_run,omitempty"`
	Schedule runconfig.Schedule `json:"schedule"` // as far as the daemon has read the plan
}

// ResizeResponse is the response to resize.
type ResizeResponse struct {
	Run string `json:"run"`
	state.ResizeResult
}

// MixtureSource is the state of one source of a mixture. Shares are of what MixResponse.ShareUnit names.
type MixtureSource struct {
	Name   string  `json:"name"`
	Target float64 `json:"target"`       // target share
	Share  float64 `json:"share"`        // share of what was taken so far
	Recent float64 `json:"recent_share"` // share of the recent steps
	Tokens int64   `json:"tokens"`       // taken so far
	// taken so far with a loss, if shares are of these tokens
	LossTokens int64          `json:"loss_tokens,omitempty"`
	Epoch      uint64         `json:"epoch"` // present epoch, from 0
	Epochs     mixture.Epochs `json:"epochs"`
	// stored documents that are not taken yet, in all epochs of a sealed source
	RemainingDocuments int64 `json:"left"`
	Endless            bool  `json:"endless,omitempty"` // read forever: Left is of the present epoch
	// number of steps for which Left suffices, by mean document length and present share
	RemainingSteps *int64 `json:"lasts_steps,omitempty"`
	Paused         bool   `json:"paused,omitempty"`
	Removed        bool   `json:"removed,omitempty"`
	Sealed         bool   `json:"sealed,omitempty"`
	Exhausted      bool   `json:"exhausted,omitempty"`
}

// CauseResponse is the response to cause: the error that a reader waiting for the step would receive at the stall
// timeout. Without a reason the step is available.
type CauseResponse struct {
	Run     string            `json:"run"`
	Step    uint64            `json:"step"`
	Reason  fault.Reason      `json:"reason,omitempty"`
	Message string            `json:"message,omitempty"`
	Do      string            `json:"do,omitempty"`
	Facts   map[string]string `json:"facts,omitempty"`
}

// ConsumedResponse is the response to consumed.
type ConsumedResponse struct {
	Run    string `json:"run"`
	Known  bool   `json:"known"`  // the rank has or had a stream
	Window int    `json:"window"` // number of steps that the rank is sent beyond those taken
	// Alert names the rank that delays its job, if any.
	Alert *fault.Error `json:"alert,omitempty"`
}

// Step is the ledger's information about a step, without its rows.
type Step struct {
	Run    string `json:"run"`
	Index  uint64 `json:"step"`
	Bucket int    `json:"bucket"`                  // tokens of a row
	Cursor uint64 `json:"cursor"`                  // last document that the planner had seen
	Masked int64  `json:"masked_tokens,omitempty"` // without loss
	// WorldSizes are the last changes of the world sizes of jobs, as far as they precede the step.
	WorldSizes planrecord.WorldSizes `json:"world_sizes,omitempty"`
}

// LedgerPage is the response to ledger: a part of a step's rows. A large step is sent as several pages.
type LedgerPage struct {
	Step
	Total int       `json:"total"` // rows of the step
	First int       `json:"first"` // first row of this page
	Rows  [][]Piece `json:"rows"`
	// Documents are the documents of the rows in order of their sequences, one per message, if requested.
	Documents []document.Info `json:"documents,omitempty"`
}

// Piece is a part of a row: tokens [Start, Start+Length) of the document at a sequence, or of a message with several
// documents.
type Piece struct {
	Source   string `json:"source,omitempty"` // source of the document
	Sequence uint64 `json:"sequence"`
	Start    int32  `json:"start"`
	Length   int32  `json:"length"`
	Repeats  int32  `json:"repeats,omitempty"` // number of first tokens whose loss belongs to another piece
	// LossTokens is the number of its tokens with a loss here. It is nil if documents were not requested, or the
	// document is no longer available.
	LossTokens *int32 `json:"loss_tokens,omitempty"`
	// Inner identifies the document in a message with several documents. It is nil if LossTokens is nil, or if the
	// message is one document.
	*InnerDocument
}

// InnerDocument is a document of a message with several documents.
type InnerDocument struct {
	Index  int32          `json:"index"`            // of the document in its message, from 0
	Within int32          `json:"start_within"`     // first token of the piece, relative to the document
	ID     string         `json:"id,omitempty"`     // producer's id
	Weight *float32       `json:"weight,omitempty"` // as document.Info.Weight
	Meta   map[string]any `json:"meta,omitempty"`   // as document.Info.Meta
}

// FoundRow is a response to find: a row that contains a part of the document.
type FoundRow struct {
	Run    string  `json:"run"`
	Step   uint64  `json:"step"`
	Bucket int     `json:"bucket"` // tokens of a row
	Row    int     `json:"row"`    // in the step
	Pieces []Piece `json:"pieces"` // of the document, in the row
}
