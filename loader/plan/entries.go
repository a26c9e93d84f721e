package plan

import (
	"encoding/binary"
	"fmt"
)

// Control is an entry that takes effect behind a document. The record fixes which one: without it the plan would depend on the clock.
type Control interface {
	Entry
	// Behind returns the sequence of that document.
	Behind() uint64
	// PlaceBehind returns the control behind another document.
	PlaceBehind(document uint64) Control
	// apply lets it take effect and returns the steps that it completes; ends says that no document follows.
	apply(p *Planner) (steps []Step, ends bool)
	String() string
}

// Seal ends the run behind a document: everything that waits is packed.
type Seal struct{ At uint64 }

// Drain empties pool and shuffle window behind a document.
type Drain struct{ At uint64 }

// Commit says that a keeper's own checkpoint covers all steps before one.
type Commit struct {
	Keeper string
	Step   uint64
}

// Leave says that a keeper keeps no checkpoints any more.
type Leave struct{ Keeper string }

// End says that no step follows: the run has so many.
type End struct{ Steps uint64 }

// Term says that a daemon begins to lead the run. The record's position in the plan is the number of the term: each is higher than those
// before it, and what a lower one has begun nobody finishes.
type Term struct{ Daemon string }

func (Seal) Kind() byte   { return kindSeal }
func (Drain) Kind() byte  { return kindDrain }
func (Commit) Kind() byte { return kindCommit }
func (Leave) Kind() byte  { return kindLeave }
func (End) Kind() byte    { return kindEnd }
func (Term) Kind() byte   { return kindTerm }

func (c Seal) Behind() uint64  { return c.At }
func (c Drain) Behind() uint64 { return c.At }

func (Seal) PlaceBehind(document uint64) Control  { return Seal{document} }
func (Drain) PlaceBehind(document uint64) Control { return Drain{document} }

func (Seal) apply(p *Planner) ([]Step, bool)  { return p.Seal(), true }
func (Drain) apply(p *Planner) ([]Step, bool) { return p.Drain(), false }

func (c Seal) appendBody(b []byte) []byte  { return binary.AppendUvarint(b, c.At) }
func (c Drain) appendBody(b []byte) []byte { return binary.AppendUvarint(b, c.At) }
func (c Commit) appendBody(b []byte) []byte {
	return appendName(binary.AppendUvarint(b, c.Step), c.Keeper)
}
func (c Leave) appendBody(b []byte) []byte { return appendName(binary.AppendUvarint(b, 0), c.Keeper) }
func (c End) appendBody(b []byte) []byte   { return binary.AppendUvarint(b, c.Steps) }
func (c Term) appendBody(b []byte) []byte  { return appendName(b, c.Daemon) }

func (c Seal) String() string   { return fmt.Sprintf("seal behind document %d", c.At) }
func (c Drain) String() string  { return fmt.Sprintf("drain behind document %d", c.At) }
func (c Commit) String() string { return fmt.Sprintf("commit of %q before step %d", c.Keeper, c.Step) }
func (c Leave) String() string  { return fmt.Sprintf("leave of %q", c.Keeper) }
func (c End) String() string    { return fmt.Sprintf("end of the run with %d steps", c.Steps) }
func (c Term) String() string   { return fmt.Sprintf("begin of the lead of %q", c.Daemon) }

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
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

func (r *varints) daemon() string {
	t := Term{string(r.bytes(int(r.bounded(maxDaemonName))))}
	if err := t.Validate(); err != nil {
		r.fail(err)
	}
	return t.Daemon
}

// control reads what appendBody wrote of an entry of a kind, of those that are not a part of a step or a header.
func (r *varints) control(kind byte) Entry {
	switch kind {
	case kindSeal:
		return Seal{r.uvarint()}
	case kindDrain:
		return Drain{r.uvarint()}
	case kindCommit:
		step := r.uvarint()
		return Commit{r.keeper(), step}
	case kindLeave:
		r.uvarint() // a commit's step, which a leave has not
		return Leave{r.keeper()}
	case kindEnd:
		return End{r.uvarint()}
	case kindTerm:
		return Term{r.daemon()}
	}
	r.fail(fmt.Errorf("unknown kind %d", kind))
	return nil
}
