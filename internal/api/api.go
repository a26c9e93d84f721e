// Package api defines the JSON of the Flight interface: tickets, the metadata of record batches, and the bodies and
// responses of actions. Server, Go client, web page and commands share the definitions. The actions info and stats
// respond with loader.Info and loader.Stats. docs/wire.md is the page for other languages: fields may be added, none
// may change its name or meaning.
package api

import (
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/state"
)

// Committed answers commit and leave: what stands, not what was asked for.
type Committed struct {
	Run  string `json:"run"`
	Step uint64 `json:"committed"` // all keepers' own checkpoints cover all steps before this one
}

// Checkpoint answers checkpoint: the step at which the planner's state is stored.
type Checkpoint struct {
	Run  string `json:"run"`
	Step uint64 `json:"step"`
}

// Measured answers measure: with what is known before the measuring has begun; nil where that is nothing.
type Measured struct {
	Run    string        `json:"run"`
	Length *state.Length `json:"length,omitempty"`
}

// Recorded answers seal and drain, which become a record of the plan.
type Recorded struct {
	Run      string `json:"run"`
	Sequence uint64 `json:"sequence"`         // of the document behind which the record stands
	Source   string `json:"source,omitempty"` // whose document that is, where one source was sealed
}

// Mixture answers mix: with the first step that a change can show in and the shares that all sources are to have by it,
// or with how things stand.
type Mixture struct {
	Run    string             `json:"run"`
	Step   uint64             `json:"step"`              // the first one that can differ by a change, as of now
	DryRun bool               `json:"dry_run,omitempty"` // nothing was changed
	Target map[string]float64 `json:"target"`            // share of the tokens that each source is to have
	// the plan had the change that was decided on at that number of steps: it stays as it was
	Again bool `json:"again,omitempty"`

	// How things stand, where no change was asked for.
	Tokens      int64         `json:"tokens,omitempty"`       // taken so far
	RecentSteps int           `json:"recent_steps,omitempty"` // that MixedSource.Recent is of
	Sources     []MixedSource `json:"sources,omitempty"`      // by number
}

// MixedSource is how one source of a mixture stands. Shares are of tokens.
type MixedSource struct {
	Name   string         `json:"name"`
	Target float64        `json:"target"`       // share that it is to have
	Share  float64        `json:"share"`        // share of the tokens taken so far
	Recent float64        `json:"recent_share"` // share of the last steps
	Tokens int64          `json:"tokens"`       // taken so far
	Epoch  uint64         `json:"epoch"`        // that is read, from 0
	Epochs mixture.Epochs `json:"epochs"`
	// documents that are stored and not taken, all epochs of a sealed source
	Left    int64 `json:"left"`
	Endless bool  `json:"endless,omitempty"` // it is read for ever: Left is of this epoch
	// steps that these are enough for, by its mean document and present share
	Lasts   *int64 `json:"lasts_steps,omitempty"`
	Resting bool   `json:"resting,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	Sealed  bool   `json:"sealed,omitempty"`
	UsedUp  bool   `json:"used_up,omitempty"`
}

// Cause answers cause with what a reader that waits for the step would be told at the stall timeout; without a reason
// when the step is there.
type Cause struct {
	Run     string            `json:"run"`
	Step    uint64            `json:"step"`
	Reason  fault.Reason      `json:"reason,omitempty"`
	Message string            `json:"message,omitempty"`
	Do      string            `json:"do,omitempty"`
	Facts   map[string]string `json:"facts,omitempty"`
}

// Consumed answers consumed.
type Consumed struct {
	Run    string `json:"run"`
	Known  bool   `json:"known"`  // the rank has a stream, or had one
	Window int    `json:"window"` // steps that the rank is sent beyond those taken
	// Alert names the rank of the job that holds the others.
	Alert *fault.Error `json:"alert,omitempty"`
}

// Step is what the ledger says of a step beside its rows.
type Step struct {
	Run    string `json:"run"`
	Index  uint64 `json:"step"`
	Bucket int    `json:"bucket"`                  // tokens of a row
	Cursor uint64 `json:"cursor"`                  // last document that the planner had seen
	Masked int64  `json:"masked_tokens,omitempty"` // that have no loss
}

// Page answers ledger: a part of a step's rows. A long step comes as several pages.
type Page struct {
	Step
	Total int       `json:"total"` // rows of the step
	First int       `json:"first"` // first row of this page
	Rows  [][]Piece `json:"rows"`
	// Documents are those of the rows, in order of their sequences, when the request asks for them: one for each message.
	Documents []document.Info `json:"documents,omitempty"`
}

// Piece is a part of a row: tokens [Start, Start+Length) of the document of a sequence, or of a message that holds
// several.
type Piece struct {
	Source   string `json:"source,omitempty"` // the document's
	Sequence uint64 `json:"sequence"`
	Start    int32  `json:"start"`
	Length   int32  `json:"length"`
	Repeats  int32  `json:"repeats,omitempty"` // tokens that it begins with, and whose loss another piece has
	// LossTokens is how many of its tokens have a loss here; nil where documents were not asked for, or the document is
	// not there any more.
	LossTokens *int32 `json:"loss_tokens,omitempty"`
	// Inner is the document, of a message that holds several; nil where LossTokens is, and where the message is one.
	*Inner
}

// Inner is a document of a message that holds several.
type Inner struct {
	Index  int32          `json:"index"`            // of the document in its message, from 0
	Within int32          `json:"start_within"`     // first token of the piece, counted in the document
	ID     string         `json:"id,omitempty"`     // producer's id
	Weight *float32       `json:"weight,omitempty"` // as document.Info.Weight
	Meta   map[string]any `json:"meta,omitempty"`   // as document.Info.Meta
}

// Found answers find: a row that holds a part of the document.
type Found struct {
	Run    string  `json:"run"`
	Step   uint64  `json:"step"`
	Bucket int     `json:"bucket"` // tokens of a row
	Row    int     `json:"row"`    // of the step
	Pieces []Piece `json:"pieces"` // of the document, in the row
}
