package planrecord

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// Control is an entry that takes effect after an arrival. The record contains the arrival; otherwise the plan would
// depend on the clock.
type Control interface {
	Entry
	// EffectiveAfter returns the arrival after which the control takes effect.
	EffectiveAfter() uint64
	// PlaceAfter returns the control with another arrival.
	PlaceAfter(arrival uint64) Control
	String() string
}

// Seal is a request to end all sources at their current last documents. It is never in a plan, which has a SealSource
// for each source instead.
type Seal struct{ Requester string } // By as in Flush

// Flush flushes the pool and the shuffle window after an arrival.
type Flush struct {
	Arrival uint64
	// Requester is the identity that requested the control. It is empty without authentication, and if the daemon itself
	// decided on the control. It does not affect the plan.
	Requester string
}

// Mix changes the mixture after an arrival.
type Mix struct {
	Arrival   uint64
	Requester string // as in Flush
	mixture.Change
	// number of steps that a trainer had received when it decided on the change, which is made once for each such
	// number; nil for other changes
	DecidedStep  *uint64
	RequestID    string             // id of the request: a repeated request is not recorded again
	SourceBegins []plan.SourceBegin // of the added sources
}

// mixBody is the JSON body of a Mix record.
type mixBody struct {
	mixture.Change
	DecidedStep  *uint64            `json:"decided,omitempty"`
	RequestID    string             `json:"request,omitempty"`
	SourceBegins []plan.SourceBegin `json:"begins,omitempty"`
}

// SealSource ends a source after its document Last. It takes effect after an arrival.
type SealSource struct {
	Arrival   uint64
	Requester string // as in Flush
	Source    int
	Last      uint64
}

// Rest pauses or resumes a source after an arrival. A source is paused because it has no document.
type Rest struct {
	Arrival uint64
	Source  int
	Rests   bool
}

// Commit records that a job's own checkpoint covers all steps before Step.
type Commit struct {
	Job     string
	Step    uint64
	Skipped uint64 // how many of these steps the job has skipped
}

// Leave records that a job no longer has checkpoints.
type Leave struct{ Job string }

// End records that no step follows. Steps is the number of steps of the run.
type End struct{ Steps uint64 }

// Term records that a daemon starts to lead the run. The position of the record in the plan is the number of the
// term. Each term is higher than all earlier ones, and work that a lower term left unfinished is never completed.
type Term struct{ Daemon string }

// Foreign records that the record at position At was not written by a daemon of the run. The leader found it in place
// of its own next record, and it is not a Term. From that position on, the plan is invalid.
type Foreign struct{ Position uint64 }

// ForeignError is the reason why a plan with a Foreign is not followed. At is the position of the foreign record.
type ForeignError struct{ Position uint64 }

func (e *ForeignError) Error() string {
	return "none of the run's daemons wrote it, as the one that led has noted"
}

// Kind implements Entry.
func (Seal) Kind() byte { return kindSeal }

// Kind implements Entry.
func (Flush) Kind() byte { return kindFlush }

// Kind implements Entry.
func (Mix) Kind() byte { return kindMix }

// Kind implements Entry.
func (SealSource) Kind() byte { return kindSealSource }

// Kind implements Entry.
func (Rest) Kind() byte { return kindRest }

// Kind implements Entry.
func (Commit) Kind() byte { return kindCommit }

// Kind implements Entry.
func (Leave) Kind() byte { return kindLeave }

// Kind implements Entry.
func (End) Kind() byte { return kindEnd }

// Kind implements Entry.
func (Term) Kind() byte { return kindTerm }

// Kind implements Entry.
func (Foreign) Kind() byte { return kindForeign }

// EffectiveAfter implements Control.
func (c Flush) EffectiveAfter() uint64 { return c.Arrival }

// EffectiveAfter implements Control.
func (c Mix) EffectiveAfter() uint64 { return c.Arrival }

// EffectiveAfter implements Control.
func (c SealSource) EffectiveAfter() uint64 { return c.Arrival }

// EffectiveAfter implements Control.
func (c Rest) EffectiveAfter() uint64 { return c.Arrival }

// PlaceAfter implements Control.
func (c Flush) PlaceAfter(arrival uint64) Control { return Flush{arrival, c.Requester} }

// PlaceAfter implements Control.
func (c Mix) PlaceAfter(arrival uint64) Control {
	c.Arrival = arrival
	return c
}

// PlaceAfter implements Control.
func (c SealSource) PlaceAfter(arrival uint64) Control {
	c.Arrival = arrival
	return c
}

// PlaceAfter implements Control.
func (c Rest) PlaceAfter(arrival uint64) Control {
	c.Arrival = arrival
	return c
}

func (c Seal) appendBody(b []byte) []byte { return codec.AppendString(b, c.Requester) }
func (c Flush) appendBody(b []byte) []byte {
	return codec.AppendString(binary.AppendUvarint(b, c.Arrival), c.Requester)
}
func (c Mix) appendBody(b []byte) []byte {
	body, err := json.Marshal(mixBody{c.Change, c.DecidedStep, c.RequestID, c.SourceBegins})
	if err != nil {
		panic(fmt.Sprintf("plan: marshal mixture: %v", err)) // Check has rejected values that are not numbers
	}
	b = codec.AppendString(binary.AppendUvarint(b, c.Arrival), c.Requester)
	return codec.AppendString(b, string(body))
}
func (c SealSource) appendBody(b []byte) []byte {
	b = codec.AppendString(binary.AppendUvarint(b, c.Arrival), c.Requester)
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.Source)), c.Last)
}
func (c Rest) appendBody(b []byte) []byte {
	rests := uint64(0)
	if c.Rests {
		rests = 1
	}
	return binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, c.Arrival), uint64(c.Source)), rests)
}
func (c Commit) appendBody(b []byte) []byte {
	b = codec.AppendString(binary.AppendUvarint(b, c.Step), c.Job)
	if c.Skipped > 0 {
		b = binary.AppendUvarint(b, c.Skipped)
	}
	return b
}
func (c Leave) appendBody(b []byte) []byte {
	return codec.AppendString(binary.AppendUvarint(b, 0), c.Job)
}
func (c End) appendBody(b []byte) []byte     { return binary.AppendUvarint(b, c.Steps) }
func (c Foreign) appendBody(b []byte) []byte { return binary.AppendUvarint(b, c.Position) }
func (c Term) appendBody(b []byte) []byte    { return codec.AppendString(b, c.Daemon) }

// Infos returns the added sources, in the order of their numbers.
func (c Mix) Infos() []plan.SourceInfo {
	out := make([]plan.SourceInfo, len(c.SourceBegins))
	for i, s := range c.SourceBegins {
		out[i] = plan.SourceInfo{SourceBegin: s, Config: c.Add[s.Name], AddedAfter: c.Arrival}
	}
	return out
}

func (c Flush) String() string {
	return fmt.Sprintf("flush behind arrival %d%s", c.Arrival, requesterSuffix(c.Requester))
}
func (c Mix) String() string {
	body, _ := json.Marshal(mixBody{c.Change, c.DecidedStep, c.RequestID, nil})
	return fmt.Sprintf("mix behind arrival %d: %s%s", c.Arrival, body, requesterSuffix(c.Requester))
}
func (c SealSource) String() string {
	return fmt.Sprintf("seal of source %d behind its document %d, behind arrival %d%s", c.Source, c.Last, c.Arrival,
		requesterSuffix(c.Requester))
}
func (c Rest) String() string {
	verb := "wakes"
	if c.Rests {
		verb = "rests"
	}
	return fmt.Sprintf("source %d %s behind arrival %d", c.Source, verb, c.Arrival)
}
func (c Commit) String() string {
	text := fmt.Sprintf("commit of %q before step %d", c.Job, c.Step)
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return text
}
func (c Leave) String() string   { return fmt.Sprintf("leave of %q", c.Job) }
func (c End) String() string     { return fmt.Sprintf("end of the run with %d steps", c.Steps) }
func (c Foreign) String() string { return fmt.Sprintf("mark of the foreign record %d", c.Position) }
func (c Term) String() string    { return fmt.Sprintf("start of the term of %q", c.Daemon) }

func requesterSuffix(by string) string {
	if by == "" {
		return ""
	}
	return ", asked for by " + by
}

// maxDaemonName is the maximum length of a daemon's name in bytes.
const maxDaemonName = 255

// Validate rejects a name that no record can contain. The name is empty for a daemon without a name.
func (c Term) Validate() error {
	if c.Daemon == "" {
		return nil
	}
	return validateName("daemon", c.Daemon, maxDaemonName)
}

// maxIdentity is the maximum length of an identity's name in bytes.
const maxIdentity = 255

// ValidateIdentity rejects a name that no record can contain as the identity of a caller. It accepts the empty name of
// an unknown caller.
func ValidateIdentity(name string) error {
	if name == "" {
		return nil
	}
	return validateName("identity", name, maxIdentity)
}

// maxRequestID is the maximum length of a request's id in bytes.
const maxRequestID = 64

// ValidateRequestID rejects a request id that no record can contain. It accepts the empty id of a request without an
// id.
func ValidateRequestID(id string) error {
	if id == "" {
		return nil
	}
	return validateName("request", id, maxRequestID)
}

// readIdentity reads a name, which is empty for a caller without an identity.
func readIdentity(r *codec.Cursor) string {
	name := string(r.Bytes(int(r.BoundedUvarint(maxIdentity))))
	if err := ValidateIdentity(name); err != nil {
		r.Fail(err)
	}
	return name
}

// maxMixBytes is the maximum encoded size of a change of the mixture in bytes.
const maxMixBytes = 1 << 20

// MaxControlBytes is the maximum size in bytes of the record of a requested control. It fits into a message between
// daemons. Records that a plan has may be larger.
const MaxControlBytes = 512 << 10

// EncodeControl returns the record of a requested control, or an error if it is too large.
func EncodeControl(c Control) ([]byte, error) {
	b := Encode(c)
	if len(b) > MaxControlBytes {
		return nil, fmt.Errorf("the change has %d bytes, at most %d are possible", len(b), MaxControlBytes)
	}
	return b, nil
}

func readMix(r *codec.Cursor) Control {
	c := Mix{Arrival: r.Uvarint(), Requester: readIdentity(r)}
	body := r.Bytes(int(r.BoundedUvarint(maxMixBytes)))
	if r.Err != nil {
		return c
	}
	var m mixBody
	if err := json.Unmarshal(body, &m); err != nil {
		r.Fail(fmt.Errorf("change of the mixture: %w", err))
	}
	c.Change, c.DecidedStep, c.RequestID, c.SourceBegins = m.Change, m.DecidedStep, m.RequestID, m.SourceBegins
	if err := ValidateRequestID(c.RequestID); err != nil {
		r.Fail(err)
	}
	if again, err := json.Marshal(m); err != nil || !bytes.Equal(again, body) {
		r.Fail(errors.New("change of the mixture: it is written in another way than a daemon writes it"))
	}
	return c
}

func readSource(r *codec.Cursor) int { return int(r.BoundedUvarint(mixture.MaxSources - 1)) }

func readDaemon(r *codec.Cursor) string {
	t := Term{string(r.Bytes(int(r.BoundedUvarint(maxDaemonName))))}
	if err := t.Validate(); err != nil {
		r.Fail(err)
	}
	return t.Daemon
}

// readEntry reads an entry that appendBody wrote. kind is any kind except header and step parts.
func readEntry(r *codec.Cursor, kind byte) Entry {
	switch kind {
	case kindSeal:
		return Seal{readIdentity(r)}
	case kindFlush:
		return Flush{r.Uvarint(), readIdentity(r)}
	case kindCommit:
		c := Commit{Step: r.Uvarint(), Job: readJob(r)}
		if r.Err == nil && len(r.Buf) > 0 {
			if c.Skipped = r.Uvarint(); c.Skipped == 0 || c.Skipped > c.Step {
				r.Fail(fmt.Errorf("%d of the %d committed steps are skipped", c.Skipped, c.Step))
			}
		}
		return c
	case kindLeave:
		r.Uvarint() // place of a commit's step; a leave has none
		return Leave{readJob(r)}
	case kindResize:
		return readResize(r)
	case kindEnd:
		return End{r.Uvarint()}
	case kindTerm:
		return Term{readDaemon(r)}
	case kindForeign:
		return Foreign{r.Uvarint()}
	case kindMix:
		return readMix(r)
	case kindSealSource:
		return SealSource{r.Uvarint(), readIdentity(r), readSource(r), r.Uvarint()}
	case kindRest:
		return Rest{r.Uvarint(), readSource(r), r.BoundedUvarint(1) == 1}
	case kindFilter:
		return readFilter(r)
	case kindSchedule:
		return readSchedule(r)
	case kindForkState:
		return readForkState(r)
	}
	r.Fail(fmt.Errorf("unknown kind %d", kind))
	return nil
}
