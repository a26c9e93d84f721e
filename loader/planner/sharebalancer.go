package planner

import (
	"encoding/binary"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// evenSteps is over how many steps shares are kept even. What a source lacked much earlier is forgotten.
const evenSteps = 128

// portion is how many tokens of an atom or a step are of one source.
type portion struct {
	source int32
	tokens int64
}

// shareBalancer keeps the shares of the tokens that leave a place, the shuffle window or the queues, close to their
// targets. The mixture takes documents by exact shares, but the packer, the window and the queues let them leave in
// another order. The best of several random choices keeps counts far closer than a single one does (Mitzenmacher, The
// Power of Two Choices in Randomized Load Balancing).
type shareBalancer struct {
	forget int64   // tokens of evenSteps steps
	shares []int64 // by source: parts of mixture.Unit that it is to have of what leaves next
	lacks  []int64 // by source: tokens times mixture.Unit that left less than its share
	// Sums over the sources that distance needs: of lacks squared, lacks times shares, and shares squared.
	lacks2, products, shares2 float64
}

// distance returns how far the shares are off, squared and summed over the sources, when this leaves.
func (e *shareBalancer) distance(of []portion) float64 {
	n := int64(0)
	for _, x := range of {
		n += x.tokens
	}
	// Each product is rounded before it is added: a fused multiply-add of some processors would give another sum.
	sum := e.lacks2 + float64(float64(2*n)*e.products) + float64(float64(n*n)*e.shares2)
	for _, x := range of {
		tokens, lack := float64(x.tokens*mixture.Unit), float64(e.lacks[x.source]+e.shares[x.source]*n)
		sum += float64(tokens * (tokens - 2*lack))
	}
	return sum
}

// leave notes what leaves.
func (e *shareBalancer) leave(of []portion) {
	n := int64(0)
	for _, x := range of {
		e.lacks[x.source] -= x.tokens * mixture.Unit
		n += x.tokens
	}
	for s := range e.lacks {
		e.lacks[s] += e.shares[s] * n
		e.lacks[s] -= e.lacks[s] / e.forget * n
	}
	e.sum()
}

// follow sets the shares that what leaves next is to have.
func (e *shareBalancer) follow(shares []int64) {
	if len(e.shares) == len(shares) && &e.shares[0] == &shares[0] {
		return
	}
	e.shares = shares
	e.sum()
}

// grow makes room for so many sources.
func (e *shareBalancer) grow(sources int) {
	e.lacks = append(slices.Clip(e.lacks), make([]int64, sources-len(e.lacks))...)
}

func (e *shareBalancer) sum() {
	e.lacks2, e.products, e.shares2 = 0, 0, 0
	for s, x := range e.lacks {
		lack, share := float64(x), float64(e.shares[s])
		e.lacks2 += float64(lack * lack)
		e.products += float64(lack * share)
		e.shares2 += float64(share * share)
	}
}

// tally counts tokens by source.
type tally struct {
	tokens  []int64 // by source
	sources []int32 // that have tokens
}

func (t *tally) add(source int, tokens int32) {
	if t.tokens[source] == 0 {
		t.sources = append(t.sources, int32(source))
	}
	t.tokens[source] += int64(tokens)
}

// portions appends what was counted to out, and begins anew.
func (t *tally) portions(out []portion) []portion {
	out = slices.Grow(out, len(t.sources))
	for _, s := range t.sources {
		out = append(out, portion{s, t.tokens[s]})
		t.tokens[s] = 0
	}
	t.sources = t.sources[:0]
	return out
}

// count counts the tokens of pieces by source.
func (b *sourceSet) count(pieces []packonline.Piece) {
	for _, x := range pieces {
		b.tally.add(plan.RefSource(b.ref(x.Doc)), x.Length)
	}
}

// portionsOf returns how many tokens of an atom are of each source.
func (b *sourceSet) portionsOf(a *atom) []portion {
	if a.of == nil {
		b.count(a.pieces)
		a.of = b.tally.portions(nil)
	}
	return a.of
}

// appendState writes what each source lacks, as zigzag varints.
func (e *shareBalancer) appendState(b []byte) []byte {
	for _, x := range e.lacks {
		b = binary.AppendVarint(b, x)
	}
	return b
}

// maxLack bounds what a restored source can lack: far more tokens, times mixture.Unit, than evenSteps steps can have.
const maxLack = 1 << 60

func (e *shareBalancer) restoreState(r *codec.Cursor) {
	for s := range e.lacks {
		x := r.Varint()
		if r.Err == nil && (x > maxLack || x < -maxLack) {
			r.Fail(fmt.Errorf("source %d lacks %d tokens", s, x/mixture.Unit))
		}
		e.lacks[s] = x
	}
	e.sum()
}
