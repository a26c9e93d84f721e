package api

import "encoding/json"

// Ticket asks for one rank's rows of consecutive steps. On the wire it is a JSON object; every key may be left out.
type Ticket struct {
	Run         string   `json:"run,omitempty"`         // name of the run; empty: the one that is served
	RunID       string   `json:"run_id,omitempty"`      // of the run; when given it must match
	Fingerprint string   `json:"fingerprint,omitempty"` // of the plan; when given it must match
	Rank        int      `json:"rank"`                  // data-parallel rank, 0 ... World-1
	World       int      `json:"world,omitempty"`       // number of data-parallel ranks
	Step        uint64   `json:"step"`                  // first step to read
	Steps       uint64   `json:"steps,omitempty"`       // how many; 0: until the end of the run
	Columns     []string `json:"columns,omitempty"`     // in the order in which they are sent
	Job         string   `json:"job,omitempty"`         // that the rank belongs to; empty: planrecord.DefaultKeeper
	// of a client that reports what its trainer has taken (action consumed); kept over reconnects
	Session string `json:"session,omitempty"`
	Peer    int    `json:"peer,omitempty"`  // of several processes that read as one rank
	Taken   uint64 `json:"taken,omitempty"` // steps that the trainer has taken; with Session
	Read    uint64 `json:"read,omitempty"`  // steps before Step that the client has read by earlier streams
}

// Run is the part of the body of an action that names the run; empty: the one that is served.
type Run struct {
	Run string `json:"run,omitempty"`
}

// MixRequest is the body of mix. A mixture without a change is a question how it stands; docs/wire.md describes the
// keys.
type MixRequest struct {
	Run
	MixChange
}

// MixChange changes a mixture of sources. The zero value changes nothing.
type MixChange struct {
	// of some sources; the others keep their present shares as weights
	Weights map[string]float64         `json:"weights,omitempty"`
	Add     map[string]json.RawMessage `json:"add,omitempty"` // configurations of sources, as in a configuration file
	Remove  []string                   `json:"remove,omitempty"`
	DryRun  bool                       `json:"dry_run,omitempty"`
}

// SealRequest is the body of seal.
type SealRequest struct {
	Run
	Source string `json:"source,omitempty"` // empty: all sources
}

// LedgerRequest is the body of ledger.
type LedgerRequest struct {
	Run
	Step      uint64 `json:"step"`
	Documents bool   `json:"documents,omitempty"` // where the documents came from
}

// FindRequest is the body of find: a document by its id or path, or by its sequence in a source.
type FindRequest struct {
	Run
	ID       string `json:"id,omitempty"`
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// TextRequest is the body of text: tokens of a document from Start on, Tokens at most; 0 leaves their number to the
// daemon.
type TextRequest struct {
	Run
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence"`
	Start    uint64 `json:"start,omitempty"`
	Tokens   int    `json:"tokens,omitempty"`
}

// PeekRequest is the body of peek: the beginnings of the documents that are planned next. 0 leaves a number to the
// daemon.
type PeekRequest struct {
	Run
	Source    string `json:"source,omitempty"`
	Documents int    `json:"documents,omitempty"`
	Tokens    int    `json:"tokens,omitempty"`
}

// ConsumedRequest is the body of consumed: the report of a rank on the steps that its trainer has taken.
type ConsumedRequest struct {
	Run
	Job     string  `json:"job,omitempty"`
	Rank    int     `json:"rank"`
	World   int     `json:"world,omitempty"`
	Peer    int     `json:"peer"`
	Session string  `json:"session"`
	Taken   uint64  `json:"taken"`   // steps that the trainer has taken
	Waiting bool    `json:"waiting"` // it waits for the next one
	Still   float64 `json:"still"`   // seconds since Taken or Waiting has changed
	Left    bool    `json:"left"`    // the stream is closed
}
