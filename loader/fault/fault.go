// Package fault declares the errors of a run: each has a stable reason, facts for programs and advice for operators.
package fault

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// ErrLeadershipLost means that another process writes the run's plan, so this one must stop.
var ErrLeadershipLost = errors.New("another process writes this run's plan")

// ErrNoLeader means that no daemon currently leads the run.
var ErrNoLeader = errors.New("no daemon leads the run")

// Reason is the stable name of a cause. It is the same on the wire, in logs and in metrics.
type Reason string

// Reasons are documented with advice for readers in docs/reference/errors.md.
const (
	SourceDry       Reason = "SOURCE_DRY"       // every document of the stream has been read; the next step needs more
	SourceDown      Reason = "SOURCE_DOWN"      // the document stream cannot be reached
	TokenizerBehind Reason = "TOKENIZER_BEHIND" // documents are fetched and wait to be tokenized
	PoolFilling     Reason = "POOL_FILLING"     // documents flow, pool or shuffle window or step are not full yet
	StreamFull      Reason = "STREAM_FULL"      // the document stream has no room, and the next step needs more documents
	RankBehind      Reason = "RANK_BEHIND"      // another rank holds the plan back
	RankMissing     Reason = "RANK_MISSING"     // a rank of the job is not connected, does not answer, or holds its step
	Replaying       Reason = "REPLAYING"        // the daemon re-plans after a restart
	NotLeading      Reason = "NOT_LEADING"      // no daemon plans the run, or this one stops
	PlanLogDown     Reason = "PLAN_LOG_DOWN"    // the plan log cannot be written or read
	StorageFull     Reason = "STORAGE_FULL"     // no space is left to write the streams
	StorageDown     Reason = "STORAGE_DOWN"     // the streams cannot be written, for another reason
	CauseUnknown    Reason = "CAUSE_UNKNOWN"    // no known cause explains the wait
	RunFailed       Reason = "RUN_FAILED"       // the run stopped on an error
	PlanMismatch    Reason = "PLAN_MISMATCH"    // fingerprint or algorithm differ from the plan's, or whether it has a key
	StreamMismatch  Reason = "STREAM_MISMATCH"  // the document stream is not the one that the plan was made from
	PlanForeign     Reason = "PLAN_FOREIGN"     // the plan has a record that none of the run's daemons wrote
	PlanTruncated   Reason = "PLAN_TRUNCATED"   // the plan ends before records that it once held
	RunMismatch     Reason = "RUN_MISMATCH"     // the daemon serves another run
	RunReplaced     Reason = "RUN_REPLACED"     // the daemon serves a newer run of the same name
	WorldMismatch   Reason = "WORLD_MISMATCH"   // the world size does not divide a step's rows
	WorldConflict   Reason = "WORLD_CONFLICT"   // the ranks of a job do not agree about their world size
	StepPurged      Reason = "STEP_PURGED"      // the step's documents were released
	StepNotPlanned  Reason = "STEP_NOT_PLANNED" // the step is too far in the future
	DocumentLost    Reason = "DOCUMENT_LOST"    // a document that a step needs is missing from the stream
	InvalidTicket   Reason = "INVALID_TICKET"   // a ticket or the body of an action is malformed
	InvalidToken    Reason = "INVALID_TOKEN"    // the bearer token is missing or wrong
	IdleReader      Reason = "IDLE_READER"      // a reader has not requested its next step for a long time
	Forbidden       Reason = "FORBIDDEN"        // the caller is authenticated but not authorized
	// filters reject all recent documents, and the next step needs more
	DocumentsFiltered Reason = "DOCUMENTS_FILTERED"

	// Reasons that only a Flight server returns:
	ShuttingDown    Reason = "SHUTTING_DOWN"     // the daemon stops; another one or its successor continues
	TooManySegments Reason = "TOO_MANY_SEGMENTS" // a row has more segments than segment_ids can number
	Unsupported     Reason = "UNSUPPORTED"       // the server does not support the call or action
	Limited         Reason = "LIMITED"           // too many such calls are in progress
	Replaced        Reason = "REPLACED"          // another stream has replaced this one
	DuplicateRank   Reason = "DUPLICATE_RANK"    // another client reads as this rank of the job
	SlowReader      Reason = "SLOW_READER"       // a reader does not receive its batches, which hold memory
	Internal        Reason = "INTERNAL"          // a failure without a specific reason; the daemon's log has the cause
)

// Error is a typed cause with facts for programs and advice for operators.
type Error struct {
	Reason  Reason            `json:"reason"`
	Message string            `json:"message"`         // what and where
	Advice  string            `json:"do,omitempty"`    // advice
	Facts   map[string]string `json:"facts,omitempty"` // the same as key-value pairs
	Err     error             `json:"-"`               // underlying cause, may be nil

	// Brief and Detail are the parts of the message for the cause of a wait.
	Brief  string `json:"-"`
	Detail string `json:"-"`
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Reason, e.Message)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	keys := make([]string, 0, len(e.Facts))
	for k := range e.Facts {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for i, k := range keys {
		sep := ", "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%s=%s", sep, k, e.Facts[k])
	}
	if len(keys) > 0 {
		b.WriteByte(')')
	}
	if e.Advice != "" {
		fmt.Fprintf(&b, "; %s", e.Advice)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Text returns the text of an error for a sentence: for an *Error its message and cause, without reason, facts and
// advice.
func Text(err error) string {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Err == nil:
		return e.Message
	}
	return e.Message + ": " + Text(e.Err)
}
