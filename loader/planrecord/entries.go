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

// Control is an entry that takes effect behind an arrival. The record fixes which one: without it the plan would depend
// on the clock.
type Control interface {
	Entry
	// Behind returns the arrival.
	Behind() uint64
	// PlaceBehind returns the control behind another arrival.
	PlaceBehind(arrival uint64) Control
	String() string
}

// Seal is a request to end all sources behind their present last documents. A plan has a SealSource for each of them
// instead.
type Seal struct{ By string } // as in Drain

// Drain empties pool and shuffle window behind an arrival.
type Drain struct {
	At uint64
	// By is the identity that asked for it; empty where nobody is asked for a name, and of one that the daemon decided
	// itself. It shapes nothing.
	By string
}

// Mix changes the mixture behind an arrival.
type Mix struct {
	At uint64
	By string // as in Drain
	mixture.Change
	// the number of steps that a trainer had seen when it decided on the change, which is made once for each; nil of
	// others
	Decided *uint64
	Request string             // identifies the request: a repeated one is not recorded again
	Begins  []plan.SourceBegin // of the sources that it adds
}

// mixBody is what a Mix says in its record, as JSON.
type mixBody struct {
	mixture.Change
	Decided *uint64            `json:"decided,omitempty"`
	Request string             `json:"request,omitempty"`
	Begins  []plan.SourceBegin `json:"begins,omitempty"`
}

// SealSource says, behind an arrival, that a source has no document behind Last.
type SealSource struct {
	At     uint64
	By     string // as in Drain
	Source int
	Last   uint64
}

// Rest lets a source rest from an arrival on, because it has no document, or lets it wake.
type Rest struct {
	At     uint64
	Source int
	Rests  bool
}

// Commit says that a keeper's own checkpoint covers all steps before one.
type Commit struct {
	Keeper string
	Step   uint64
}

// Leave says that a keeper keeps no checkpoints any more.
type Leave struct{ Keeper string }

// End says that no step follows: the run has so many.
type End struct{ Steps uint64 }

// Term says that a daemon begins to lead the run. The record's position in the plan is the number of the term: each is
// higher than those before it, and what a lower one has begun nobody finishes.
type Term struct{ Daemon string }

// Foreign says that none of the run's daemons wrote the record at a position: the leader found it where its own next
// record should have come, and it begins no term. From there on nothing of the plan counts.
type Foreign struct{ At uint64 }

// ForeignError is why a plan with a Foreign is not followed.
type ForeignError struct{ At uint64 }

func (e *ForeignError) Error() string {
	return "none of the run's daemons wrote it, as the one that led has noted"
}

func (Seal) Kind() byte       { return kindSeal }
func (Drain) Kind() byte      { return kindDrain }
func (Mix) Kind() byte        { return kindMix }
func (SealSource) Kind() byte { return kindSealSource }
func (Rest) Kind() byte       { return kindRest }
func (Commit) Kind() byte     { return kindCommit }
func (Leave) Kind() byte      { return kindLeave }
func (End) Kind() byte        { return kindEnd }
func (Term) Kind() byte       { return kindTerm }
func (Foreign) Kind() byte    { return kindForeign }

func (c Drain) Behind() uint64      { return c.At }
func (c Mix) Behind() uint64        { return c.At }
func (c SealSource) Behind() uint64 { return c.At }
func (c Rest) Behind() uint64       { return c.At }

func (c Drain) PlaceBehind(arrival uint64) Control { return Drain{arrival, c.By} }

func (c Mix) PlaceBehind(arrival uint64) Control {
	c.At = arrival
	return c
}

func (c SealSource) PlaceBehind(arrival uint64) Control {
	c.At = arrival
	return c
}

func (c Rest) PlaceBehind(arrival uint64) Control {
	c.At = arrival
	return c
}

func (c Seal) appendBody(b []byte) []byte { return codec.AppendString(b, c.By) }
func (c Drain) appendBody(b []byte) []byte {
	return codec.AppendString(binary.AppendUvarint(b, c.At), c.By)
}
func (c Mix) appendBody(b []byte) []byte {
	body, err := json.Marshal(mixBody{c.Change, c.Decided, c.Request, c.Begins})
	if err != nil {
		panic(fmt.Sprintf("plan: marshal mixture: %v", err)) // Check has refused what is no number
	}
	b = codec.AppendString(binary.AppendUvarint(b, c.At), c.By)
	return codec.AppendString(b, string(body))
}
func (c SealSource) appendBody(b []byte) []byte {
	b = codec.AppendString(binary.AppendUvarint(b, c.At), c.By)
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.Source)), c.Last)
}
func (c Rest) appendBody(b []byte) []byte {
	rests := uint64(0)
	if c.Rests {
		rests = 1
	}
	return binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, c.At), uint64(c.Source)), rests)
}
func (c Commit) appendBody(b []byte) []byte {
	return codec.AppendString(binary.AppendUvarint(b, c.Step), c.Keeper)
}
func (c Leave) appendBody(b []byte) []byte {
	return codec.AppendString(binary.AppendUvarint(b, 0), c.Keeper)
}
func (c End) appendBody(b []byte) []byte     { return binary.AppendUvarint(b, c.Steps) }
func (c Foreign) appendBody(b []byte) []byte { return binary.AppendUvarint(b, c.At) }
func (c Term) appendBody(b []byte) []byte    { return codec.AppendString(b, c.Daemon) }

// Infos returns the sources that a change adds, in the order of their numbers.
func (c Mix) Infos() []plan.SourceInfo {
	out := make([]plan.SourceInfo, len(c.Begins))
	for i, s := range c.Begins {
		out[i] = plan.SourceInfo{SourceBegin: s, Config: c.Add[s.Name], Behind: c.At}
	}
	return out
}

func (c Drain) String() string {
	return fmt.Sprintf("drain behind arrival %d%s", c.At, suffixBy(c.By))
}
func (c Mix) String() string {
	body, _ := json.Marshal(mixBody{c.Change, c.Decided, c.Request, nil})
	return fmt.Sprintf("mix behind arrival %d: %s%s", c.At, body, suffixBy(c.By))
}
func (c SealSource) String() string {
	return fmt.Sprintf("seal of source %d behind its document %d, behind arrival %d%s", c.Source, c.Last, c.At,
		suffixBy(c.By))
}
func (c Rest) String() string {
	verb := "wakes"
	if c.Rests {
		verb = "rests"
	}
	return fmt.Sprintf("source %d %s behind arrival %d", c.Source, verb, c.At)
}
func (c Commit) String() string  { return fmt.Sprintf("commit of %q before step %d", c.Keeper, c.Step) }
func (c Leave) String() string   { return fmt.Sprintf("leave of %q", c.Keeper) }
func (c End) String() string     { return fmt.Sprintf("end of the run with %d steps", c.Steps) }
func (c Foreign) String() string { return fmt.Sprintf("note that record %d is nobody's", c.At) }
func (c Term) String() string    { return fmt.Sprintf("begin of the lead of %q", c.Daemon) }

func suffixBy(by string) string {
	if by == "" {
		return ""
	}
	return ", asked for by " + by
}

// maxDaemonName bounds the bytes of a daemon's name.
const maxDaemonName = 255

// Validate refuses a name that no record can have. An empty one is a daemon's that has none.
func (c Term) Validate() error {
	if c.Daemon == "" {
		return nil
	}
	return validName("daemon", c.Daemon, maxDaemonName)
}

// maxIdentity bounds the bytes of an identity's name.
const maxIdentity = 255

// ValidIdentity refuses names that no record can have as those of who asked for it. An empty one is nobody's.
func ValidIdentity(name string) error {
	if name == "" {
		return nil
	}
	return validName("identity", name, maxIdentity)
}

// maxRequest bounds the bytes of a request's id.
const maxRequest = 64

// ValidRequest refuses a request id that no record can have. An empty one is that of a request without an id.
func ValidRequest(id string) error {
	if id == "" {
		return nil
	}
	return validName("request", id, maxRequest)
}

// readIdentity reads a name, which is empty for a caller without an identity.
func readIdentity(r *codec.Cursor) string {
	name := string(r.Bytes(int(r.Bounded(maxIdentity))))
	if err := ValidIdentity(name); err != nil {
		r.Fail(err)
	}
	return name
}

// maxMix bounds the bytes of a change of the mixture.
const maxMix = 1 << 20

func readMix(r *codec.Cursor) Control {
	c := Mix{At: r.Uvarint(), By: readIdentity(r)}
	body := r.Bytes(int(r.Bounded(maxMix)))
	if r.Err != nil {
		return c
	}
	var m mixBody
	if err := json.Unmarshal(body, &m); err != nil {
		r.Fail(fmt.Errorf("change of the mixture: %w", err))
	}
	c.Change, c.Decided, c.Request, c.Begins = m.Change, m.Decided, m.Request, m.Begins
	if err := ValidRequest(c.Request); err != nil {
		r.Fail(err)
	}
	if again, err := json.Marshal(m); err != nil || !bytes.Equal(again, body) {
		r.Fail(errors.New("change of the mixture: it is written in another way than a daemon writes it"))
	}
	return c
}

func readSource(r *codec.Cursor) int { return int(r.Bounded(mixture.MaxSources - 1)) }

func readDaemon(r *codec.Cursor) string {
	t := Term{string(r.Bytes(int(r.Bounded(maxDaemonName))))}
	if err := t.Validate(); err != nil {
		r.Fail(err)
	}
	return t.Daemon
}

// readControl reads what appendBody wrote of an entry of a kind, of those that are not a part of a step or a header.
func readControl(r *codec.Cursor, kind byte) Entry {
	switch kind {
	case kindSeal:
		return Seal{readIdentity(r)}
	case kindDrain:
		return Drain{r.Uvarint(), readIdentity(r)}
	case kindCommit:
		step := r.Uvarint()
		return Commit{readKeeper(r), step}
	case kindLeave:
		r.Uvarint() // a commit's step, which a leave has not
		return Leave{readKeeper(r)}
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
		return Rest{r.Uvarint(), readSource(r), r.Bounded(1) == 1}
	case kindForkState:
		return readForkState(r)
	}
	r.Fail(fmt.Errorf("unknown kind %d", kind))
	return nil
}
