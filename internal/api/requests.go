package api

import "encoding/json"

// Ticket requests one rank's rows of consecutive steps. On the wire it is a JSON object in which every key is
// optional.
type Ticket struct {
	Run         string   `json:"run,omitempty"`         // name of the run; empty: the served run
	RunID       string   `json:"run_id,omitempty"`      // id of the run; if set, it must match
	Fingerprint string   `json:"fingerprint,omitempty"` // of the plan; if set, it must match
	Rank        int      `json:"rank"`                  // data-parallel rank, 0 ... World-1
	World       int      `json:"world,omitempty"`       // number of data-parallel ranks
	Step        uint64   `json:"step"`                  // first step to read
	Steps       uint64   `json:"steps,omitempty"`       // number of steps; 0: until the end of the run
	Columns     []string `json:"columns,omitempty"`     // in the order in which they are sent
	Job         string   `json:"job,omitempty"`         // of the rank; empty: planrecord.DefaultJob
	// of a client that reports consumption (action consumed); unchanged by reconnects
	Session string `json:"session,omitempty"`
	Peer    int    `json:"peer,omitempty"`  // number of the process, if several read as one rank
	Taken   uint64 `json:"taken,omitempty"` // steps that the trainer has taken; requires Session
	Read    uint64 `json:"read,omitempty"`  // number of steps before Step that earlier streams of the client have read
}

// Run is the part of an action's body that names the run. Empty: the served run.
type Run struct {
	Run string `json:"run,omitempty"`
}

// MixRequest is the body of mix. Without a change it requests the present state. docs/reference/wire.md describes the
// keys.
type MixRequest struct {
	Run
	MixChange
}

// MixChange changes a mixture of sources. The zero value changes nothing.
type MixChange struct {
	// of some sources; other sources keep their present shares as weights
	Weights map[string]float64         `json:"weights,omitempty"`
	Add     map[string]json.RawMessage `json:"add,omitempty"` // configurations of sources, as in a configuration file
	Remove  []string                   `json:"remove,omitempty"`
	DryRun  bool                       `json:"dry_run,omitempty"`
}

// FilterRequest is the body of filter. Without where it requests the filters in effect.
type FilterRequest struct {
	Run
	Source string  `json:"source,omitempty"` // empty: the filter of all documents
	Where  *string `json:"where,omitempty"`  // empty: no filter
	DryRun bool    `json:"dry_run,omitempty"`
}

// ScheduleRequest is the body of schedule. Without phases it requests the present schedule.
type ScheduleRequest struct {
	Run
	Phases    []map[string]any `json:"phases,omitempty"`     // as in steps.schedule of a configuration file
	RequestID string           `json:"request_id,omitempty"` // a repeated request is applied once
	DryRun    bool             `json:"dry_run,omitempty"`
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
	Steps     uint64 `json:"steps,omitempty"`     // number of steps, at most 256; 0: one
	Documents bool   `json:"documents,omitempty"` // include the origins of documents
}

// FindRequest is the body of find: a document, by its id or path, or by its sequence in a source.
type FindRequest struct {
	Run
	ID       string `json:"id,omitempty"`
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// TextRequest is the body of text: at most Tokens tokens of a document from Start on. If Tokens is 0, the daemon
// chooses the number.
type TextRequest struct {
	Run
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence"`
	Start    uint64 `json:"start,omitempty"`
	Tokens   int    `json:"tokens,omitempty"`
}

// PeekRequest is the body of peek: the beginnings of the documents that are planned next. If a number is 0, the
// daemon chooses it.
type PeekRequest struct {
	Run
	Source    string `json:"source,omitempty"`
	Documents int    `json:"documents,omitempty"`
	Tokens    int    `json:"tokens,omitempty"`
}

// ConsumedRequest is the body of consumed: a rank's report of the steps that its trainer has taken.
type ConsumedRequest struct {
	Run
	Job              string  `json:"job,omitempty"`
	Rank             int     `json:"rank"`
	World            int     `json:"world,omitempty"`
	Peer             int     `json:"peer"`
	Session          string  `json:"session"`
	Taken            uint64  `json:"taken"`   // steps that the trainer has taken
	Waiting          bool    `json:"waiting"` // the trainer waits for the next step
	UnchangedSeconds float64 `json:"still"`   // seconds since the last change of Taken or Waiting
	Left             bool    `json:"left"`    // the stream is closed
}
