package loader

import (
	"encoding/binary"
	"fmt"
)

// Control is an entry that takes effect behind a document. Without the record the plan would depend on when it was decided.
type Control interface {
	Entry
	// behind returns the sequence of that document, and place the control behind another one.
	behind() uint64
	place(behind uint64) Control
	// apply lets it take effect and returns the steps that it completes; ends says that no document follows.
	apply(p *Planner) (steps []Step, ends bool)
	String() string
}

// Seal ends the run behind a document: everything that waits is packed.
type Seal struct{ Behind uint64 }

// Drain empties pool and shuffle window behind a document.
type Drain struct{ Behind uint64 }

// Commit says that a keeper's own checkpoint covers all steps before one.
type Commit struct {
	Keeper string
	Step   uint64
}

// Leave says that a keeper keeps no checkpoints any more.
type Leave struct{ Keeper string }

// End says that no step follows: the run has so many.
type End struct{ Steps uint64 }

func (Seal) kind() byte   { return kindSeal }
func (Drain) kind() byte  { return kindDrain }
func (Commit) kind() byte { return kindCommit }
func (Leave) kind() byte  { return kindLeave }
func (End) kind() byte    { return kindEnd }

func (c Seal) behind() uint64  { return c.Behind }
func (c Drain) behind() uint64 { return c.Behind }

func (Seal) place(behind uint64) Control  { return Seal{behind} }
func (Drain) place(behind uint64) Control { return Drain{behind} }

func (Seal) apply(p *Planner) ([]Step, bool)  { return p.Seal(), true }
func (Drain) apply(p *Planner) ([]Step, bool) { return p.Drain(), false }

func (c Seal) appendBody(b []byte) []byte  { return binary.AppendUvarint(b, c.Behind) }
func (c Drain) appendBody(b []byte) []byte { return binary.AppendUvarint(b, c.Behind) }
func (c Commit) appendBody(b []byte) []byte {
	return appendName(binary.AppendUvarint(b, c.Step), c.Keeper)
}
func (c Leave) appendBody(b []byte) []byte { return appendName(binary.AppendUvarint(b, 0), c.Keeper) }
func (c End) appendBody(b []byte) []byte   { return binary.AppendUvarint(b, c.Steps) }

func (c Seal) String() string   { return fmt.Sprintf("seal behind document %d", c.Behind) }
func (c Drain) String() string  { return fmt.Sprintf("drain behind document %d", c.Behind) }
func (c Commit) String() string { return fmt.Sprintf("commit of %q before step %d", c.Keeper, c.Step) }
func (c Leave) String() string  { return fmt.Sprintf("leave of %q", c.Keeper) }
func (c End) String() string    { return fmt.Sprintf("end of the run with %d steps", c.Steps) }

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
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
	}
	r.fail(fmt.Errorf("unknown kind %d", kind))
	return nil
}
