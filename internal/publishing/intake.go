package publishing

import (
	"context"
	"fmt"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/plan"
	"loaderd/stream"
)

// RunIntake is what a run read from the document stream during a publishing. Documents of other producers count too.
type RunIntake struct {
	Run     string     `json:"run"`
	Read    int64      `json:"read"`             // documents, used or not
	Skipped plan.Skips `json:"skipped"`          // of those documents
	Unread  uint64     `json:"unread,omitempty"` // documents up to the last published one that it has not read yet
	// Filling reports whether its shuffle window is not full yet: a seal ends the wait for its first step.
	Filling bool `json:"filling,omitempty"`
}

// NotAcceptedError reports that the runs over a document stream would reject every document to be published.
type NotAcceptedError struct {
	Runs        []RunTokenizer
	Fingerprint string // of the documents' tokenizer; empty for texts
}

// RunTokenizer is the tokenizer of a run.
type RunTokenizer struct{ Run, Tokenizer, Fingerprint string }

func (e *NotAcceptedError) Error() string {
	text, run := "the documents are texts", ", and run %s takes token ids alone (tokenizer.name: %s, fingerprint %s)"
	if e.Fingerprint != "" {
		text, run = "the documents are token ids of the tokenizer "+e.Fingerprint, ", and run %s has tokenizer %s (%s)"
	}
	for _, r := range e.Runs {
		text += fmt.Sprintf(run, r.Run, r.Tokenizer, r.Fingerprint)
	}
	return text + ": every document would become a dead letter"
}

// CheckFingerprint returns a *NotAcceptedError with the runs that would reject documents with a tokenizer's
// fingerprint, or texts if it is empty; nil without any. all reports whether every run that reads the stream would
// reject them.
func (a StreamRuns) CheckFingerprint(fingerprint string) (rejects *NotAcceptedError, all bool) {
	for _, run := range a.Active {
		x, known := a.intakes[run]
		if !known || fingerprint == "" && x.Text || fingerprint != "" && fingerprint == x.Fingerprint {
			continue
		}
		if rejects == nil {
			rejects = &NotAcceptedError{Fingerprint: fingerprint}
		}
		rejects.Runs = append(rejects.Runs, RunTokenizer{run, x.Tokenizer, x.Fingerprint})
	}
	return rejects, rejects != nil && len(rejects.Runs) == len(a.Active)
}

const (
	intakePollInterval = 200 * time.Millisecond
	intakeIdleTimeout  = 2 * time.Second // time without progress after which a run is no longer waited for
)

// AwaitIntake waits until every run has read the documents up to sequence last, reads no further for now, or makes no
// progress. It returns what each run has read since before. After ctx has ended it does not wait.
func AwaitIntake(ctx context.Context, store *stream.Store, before StreamRuns, last uint64) (all []RunIntake) {
	var progress uint64
	moved := time.Now()
	for {
		now := ListStreamRuns(context.WithoutCancel(ctx), store, last)
		waits, read := now.intakeProgress(last)
		if read > progress {
			progress, moved = read, time.Now()
		}
		if !waits || time.Since(moved) >= intakeIdleTimeout {
			return now.intakeSince(before, last)
		}
		select {
		case <-ctx.Done():
			return now.intakeSince(before, last)
		case <-time.After(intakePollInterval):
		}
	}
}

// intakeProgress reports whether a run has yet to read up to a document, and how many documents all runs have read
// together.
func (a StreamRuns) intakeProgress(last uint64) (waits bool, read uint64) {
	for _, run := range a.Active {
		x, known := a.intakes[run]
		waits = waits || !known || x.Read < last && !x.Full
		read += x.Read
	}
	return waits, read
}

// intakeSince returns what the runs have read since before.
func (a StreamRuns) intakeSince(before StreamRuns, last uint64) (all []RunIntake) {
	for _, run := range a.Active {
		x, known := a.intakes[run]
		if !known {
			continue
		}
		was := before.intakes[run]
		if was.Documents > x.Documents { // another run with this name
			was = backend.Intake{}
		}
		out := RunIntake{Run: run, Read: x.Documents - was.Documents, Skipped: x.Skipped.Sub(was.Skipped),
			Filling: x.Filling}
		if x.Read < last {
			out.Unread = last - x.Read
		}
		all = append(all, out)
	}
	return all
}
