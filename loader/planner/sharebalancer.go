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

// balanceSteps is the number of steps over which shares are kept even. Earlier deviations are forgotten.
const balanceSteps = 128

// portion is the number of tokens of an atom or a step that belong to one source. If shares are of tokens with a loss,
// these are counted here and in all of shareBalancer.
type portion struct {
	source int32
	tokens int64
}

// shareBalancer keeps the shares of the tokens that leave the shuffle window or the queues close to their targets.
// The mixture takes documents by exact shares, but the packer, the window and the queues change their order. The best
// of several random choices keeps counts far closer than a single choice does (Mitzenmacher, The Power of Two Choices
// in Randomized Load Balancing).
type shareBalancer struct {
	decayTokens int64   // tokens of balanceSteps steps
	shares      []int64 // by source: target share of the tokens that leave next, in parts of mixture.Unit
	deficits    []int64 // by source: tokens times mixture.Unit that are missing from its share
	// Sums over the sources that distance needs: of lacks squared, lacks times shares, and shares squared.
	deficitSquares, products, shareSquares float64
}

// distance returns the deviation from the shares, squared and summed over the sources, if the given tokens leave.
func (e *shareBalancer) distance(of []portion) float64 {
	n := int64(0)
	for _, x := range of {
		n += x.tokens
	}
	// Each product is rounded before it is added: the fused multiply-add of some processors would give another sum.
	sum := e.deficitSquares + float64(float64(2*n)*e.products) + float64(float64(n*n)*e.shareSquares)
	for _, x := range of {
		tokens, lack := float64(x.tokens*mixture.Unit), float64(e.deficits[x.source]+e.shares[x.source]*n)
		sum += float64(tokens * (tokens - 2*lack))
	}
	return sum
}

// recordLeaving records tokens that leave.
func (e *shareBalancer) recordLeaving(of []portion) {
	n := int64(0)
	for _, x := range of {
		e.deficits[x.source] -= x.tokens * mixture.Unit
		n += x.tokens
	}
	for s := range e.deficits {
		e.deficits[s] += e.shares[s] * n
		e.deficits[s] -= e.deficits[s] / e.decayTokens * n
	}
	e.updateSums()
}

// setTargets sets the target shares of the tokens that leave next.
func (e *shareBalancer) setTargets(shares []int64) {
	if len(e.shares) == len(shares) && &e.shares[0] == &shares[0] {
		return
	}
	e.shares = shares
	e.updateSums()
}

// extendTo extends the balancer to the given number of sources.
func (e *shareBalancer) extendTo(sources int) {
	e.deficits = append(slices.Clip(e.deficits), make([]int64, sources-len(e.deficits))...)
}

func (e *shareBalancer) updateSums() {
	e.deficitSquares, e.products, e.shareSquares = 0, 0, 0
	for s, x := range e.deficits {
		lack, share := float64(x), float64(e.shares[s])
		e.deficitSquares += float64(lack * lack)
		e.products += float64(lack * share)
		e.shareSquares += float64(share * share)
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

// takePortions appends the counted tokens to out and resets the tally. The result is not nil.
func (t *tally) takePortions(out []portion) []portion {
	out = slices.Grow(out, max(len(t.sources), 1))
	for _, s := range t.sources {
		out = append(out, portion{s, t.tokens[s]})
		t.tokens[s] = 0
	}
	t.sources = t.sources[:0]
	return out
}

// tallyPieces counts the tokens of pieces by source, in the unit of the shares.
func (b *sourceSet) tallyPieces(pieces []packonline.Piece) {
	for _, x := range pieces {
		n := x.Length
		if b.losses != nil {
			n = b.losses.lossTokens(x)
		}
		if n > 0 {
			b.tally.add(plan.RefSource(b.refOf(x.Doc)), n)
		}
	}
}

// countStepLoss returns the number of tokens with a loss by source in a step whose pieces name arrivals, or nil if
// shares are of all tokens.
func (b *sourceSet) countStepLoss(s *plan.Step) []int64 {
	if b.losses == nil {
		return nil
	}
	for _, row := range s.Rows {
		b.tallyPieces(row)
	}
	out := make([]int64, b.mix.Len())
	for _, x := range b.tally.takePortions(nil) {
		out[x.source] = x.tokens
	}
	return out
}

// atomPortions returns the number of tokens of an atom by source, in the unit of the shares.
func (b *sourceSet) atomPortions(a *atom) []portion {
	if a.portions == nil {
		b.tallyPieces(a.pieces)
		a.portions = b.tally.takePortions(nil)
	}
	return a.portions
}

// appendState writes the missing tokens of each source as zigzag varints.
func (e *shareBalancer) appendState(b []byte) []byte {
	for _, x := range e.deficits {
		b = binary.AppendVarint(b, x)
	}
	return b
}

// maxDeficit bounds the missing tokens of a restored source, times mixture.Unit. balanceSteps steps have far fewer.
const maxDeficit = 1 << 60

func (e *shareBalancer) restoreState(r *codec.Cursor) {
	for s := range e.deficits {
		x := r.Varint()
		if r.Err == nil && (x > maxDeficit || x < -maxDeficit) {
			r.Fail(fmt.Errorf("source %d lacks %d tokens", s, x/mixture.Unit))
		}
		e.deficits[s] = x
	}
	e.updateSums()
}
