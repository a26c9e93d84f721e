package planview

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// NewRunID returns a random id for a new run.
func NewRunID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// CheckStream returns a fault.StreamMismatch error if s is not the document stream that the plan was made from. Equal
// sequences would refer to other documents there.
func CheckStream(run string, planned, s plan.Stream) error {
	if planned.Equal(s) {
		return nil
	}
	how := fmt.Sprintf("this daemon reads %s", s)
	if s.Name == planned.Name {
		how = fmt.Sprintf("the present one is %s: it was deleted and created again", s)
	}
	return &fault.Error{Reason: fault.StreamMismatch,
		Message: fmt.Sprintf("the plan of run %s was made of document stream %s; %s", run, planned, how),
		Advice: "set stream.name back, or restore the stream from its backup and give the copy its former time " +
			"(docs/how-to/operate.md#back-up-and-restore); to train on the present documents, begin a new run " +
			"(another run name)",
		Facts: map[string]string{"run": run, "plan_stream": planned.Name,
			"plan_stream_created": planned.Created.UTC().Format(time.RFC3339Nano),
			"stream":              s.Name, "stream_created": s.Created.UTC().Format(time.RFC3339Nano)}}
}

// CheckTokenizer returns a fault.PlanMismatch error for a tokenizer that produces other tokens than the plan's.
func CheckTokenizer(t, o runconfig.Tokenizer) error {
	if t.Fingerprint == o.Fingerprint && t.End == o.End && t.VocabSize == o.VocabSize {
		return nil
	}
	return &fault.Error{Reason: fault.PlanMismatch,
		Message: fmt.Sprintf("the plan was made with tokenizer %s (%s, end %d, %d ids), this is %s (%s, end %d, %d ids)",
			t.Name, t.Fingerprint, t.End, t.VocabSize, o.Name, o.Fingerprint, o.End, o.VocabSize),
		Advice: "give the tokenizer and the settings of the run",
		Facts:  map[string]string{"plan_tokenizer": t.Fingerprint, "tokenizer": o.Fingerprint}}
}
