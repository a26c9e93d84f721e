package publishing

import (
	"context"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/publish"
	"loaderd/stream/retention"
)

// Summary is the result of a publishing. Other programs read its JSON: fields may be added, but none may change
// its name or meaning.
type Summary struct {
	Server         string `json:"server"`
	Stream         string `json:"stream"`
	Subject        string `json:"subject"`
	Inputs         int    `json:"inputs"`          // files, and folders of plain text
	InputsComplete int    `json:"inputs_complete"` // now completely in the stream
	Documents      int64  `json:"documents"`       // committed by this publishing
	Bytes          int64  `json:"bytes"`
	// already in the stream; inputs that were complete are not read and not counted
	Duplicates    int64               `json:"duplicates"`
	AlreadyStored int64               `json:"already"`  // already in the stream, of inputs that were complete
	Skipped       map[string]int64    `json:"skipped"`  // documents and files left out, by reason
	Replaced      corpus.Replacements `json:"replaced"` // bytes of texts that are not UTF-8
	LastSequence  uint64              `json:"last_sequence"`
	Seconds       float64             `json:"seconds"`
	WaitedSeconds float64             `json:"waited_seconds"` // for a full stream or a lost connection
	Interrupted   bool                `json:"interrupted"`
	Repeated      *Repeats            `json:"repeated,omitempty"` // the duplicates that other inputs had published
	// sealed runs that do not read the last of these documents
	UnreadBy     []SealedRun `json:"unread_by,omitempty"`
	InputsFailed int         `json:"inputs_failed,omitempty"`
	// errors of inputs that were not read to their end, only the first ones
	Problems []string    `json:"problems,omitempty"`
	Warnings []string    `json:"warnings,omitempty"` // damage that was skipped, only the first
	Runs     []RunIntake `json:"runs,omitempty"`     // that have read documents meanwhile
	Error    string      `json:"error,omitempty"`

	NoText error `json:"-"` // of the first file or record that is left out because it has no text

	inputFacts
}

// inputFacts are facts about the inputs that are not in the JSON.
type inputFacts struct {
	skippedInputs int  // inputs that were complete before
	hasDocuments  bool // some input had an element that is, or was intended to be, a document
	hasMeta       bool // some document had a value of Columns.Meta
}

// maxErrors bounds the problems, and the warnings, of a summary.
const maxErrors = 100

// appendError appends an error to those of a summary.
func appendError(all []string, err error) []string {
	if len(all) == maxErrors {
		return all
	}
	return append(all, err.Error())
}

// reasonEmpty is the reason for documents without content, in addition to those of package corpus.
const reasonEmpty record.Reason = "empty"

func newSummary(p *publish.Publisher, inputs []*corpus.Input) Summary {
	return Summary{
		Server: p.Documents().ClientURL(), Stream: p.Documents().Config().Name, Subject: p.Subject(),
		Inputs: len(inputs), Skipped: map[string]int64{},
	}
}

// IsEmpty reports that no input contained a document.
func (s Summary) IsEmpty() bool { return !s.hasDocuments && s.skippedInputs == 0 }

// HasMeta reports whether a published document had a value of Columns.Meta.
func (s Summary) HasMeta() bool { return s.hasMeta }

// Repeats are documents that were published before by a different input: the same files by another path, or the
// same standard input.
type Repeats struct {
	Documents int64  `json:"documents"`
	Sequence  uint64 `json:"first_sequence"` // of the first of them in the stream
	Input     string `json:"input,omitempty"`
	Path      string `json:"path,omitempty"`

	All bool `json:"-"` // nothing else was published
}

// findRepeats returns the documents that were published before, nil for none.
func findRepeats(ctx context.Context, p *publish.Publisher, done publish.Committed) *Repeats {
	if done.Repeated == 0 {
		return nil
	}
	r := &Repeats{Documents: done.Repeated, Sequence: done.FirstRepeated, All: done.Documents == 0 &&
		done.Duplicates == done.Repeated}
	if o, err := p.Origin(ctx, r.Sequence); err == nil { // otherwise they stay empty
		r.Input, r.Path = o.Input, o.Path
	}
	return r
}

// SealedRun is a run that does not read the published documents.
type SealedRun struct {
	Run string `json:"run"`
	End uint64 `json:"ends_behind"` // the last document that it reads
}

// StreamRuns is the runs over a document stream, divided by whether they read documents after a sequence.
type StreamRuns struct {
	Sealed []SealedRun
	Active []string

	intakes map[string]backend.Intake // of Reads, for runs that have reported
}

// ListStreamRuns returns the runs that read documents stored now, up to sequence last. A producer need not have
// permission for this. Nothing depends on the result, and without permission it is empty.
func ListStreamRuns(ctx context.Context, store *stream.Store, last uint64) (a StreamRuns) {
	runs, err := retention.Readers(ctx, store)
	if err != nil {
		return StreamRuns{}
	}
	for _, r := range runs {
		if r.Sealed && r.End < last {
			a.Sealed = append(a.Sealed, SealedRun{r.Run, r.End})
		} else {
			a.Active = append(a.Active, r.Run)
		}
	}
	if a.intakes, err = retention.Intakes(ctx, store, a.Active); err != nil {
		a.intakes = nil
	}
	return a
}
