package plan

import (
	"encoding/binary"
	"fmt"

	"loaderd/loader/mixture"
)

// evenSteps is over how many steps shares are kept even. What a source lacked much earlier is forgotten, so that a change of weights is followed and not made
// up for.
const evenSteps = 128

// evenness keeps the shares of what leaves the shuffle window close to what they are to be. The mixture does so for the documents that come; which of their
// rows leave the pool and the window is another matter. The window draws two atoms, and the one leaves behind which the shares are closer: of two random
// choices the better one keeps counts far closer than one does (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing).
type evenness struct {
	forget int64   // tokens of evenSteps steps
	lacks  []int64 // by source: tokens times mixture.Unit that left less than its share
	trial  []int64 // scratch space
}

// closer reports whether the shares are closer behind the second atom than behind the first.
func (b *blend) closer(second, first atom) bool { return b.distance(&second) < b.distance(&first) }

// distance returns how far shares are off, squared and summed, when an atom leaves.
func (b *blend) distance(a *atom) (sum float64) {
	e := &b.even
	e.trial = append(e.trial[:0], e.lacks...)
	b.leave(a, e.trial)
	for _, lack := range e.trial {
		x := float64(lack)
		sum += float64(x * x) // rounded here, so that no machine computes both in one instruction and another sum
	}
	return sum
}

// leaves notes that an atom has left the window.
func (b *blend) leaves(a *atom) {
	n := b.leave(a, b.even.lacks)
	for s, x := range b.even.lacks {
		b.even.lacks[s] -= x / b.even.forget * n
	}
}

// leave takes the tokens of an atom from what sources lack, and gives each its share of them. It returns their number.
func (b *blend) leave(a *atom, lacks []int64) (n int64) {
	for _, x := range a.pieces {
		lacks[RefSource(b.ref(x.Doc))] -= int64(x.Length) * mixture.Unit
		n += int64(x.Length)
	}
	for s := range lacks {
		lacks[s] += b.mix.Parts(s) * n
	}
	return n
}

// appendState writes what each source lacks, as zigzag varints.
func (e *evenness) appendState(b []byte) []byte {
	for _, x := range e.lacks {
		b = binary.AppendVarint(b, x)
	}
	return b
}

// maxLack bounds what a restored source can lack: far more tokens, times mixture.Unit, than evenSteps steps can have.
const maxLack = 1 << 60

func (e *evenness) restoreState(r *varints) {
	for s := range e.lacks {
		x := r.varint()
		if r.err == nil && (x > maxLack || x < -maxLack) {
			r.fail(fmt.Errorf("source %d lacks %d tokens", s, x/mixture.Unit))
		}
		e.lacks[s] = x
	}
}
