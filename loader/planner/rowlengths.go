package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/packonline"
	"loaderd/shuffle"
)

// rowLengths are the row lengths of a planner's packers and queues. A phase of the steps may change them. Then the
// planner emits no step until all buffered tokens are packed again, as in a fork.
type rowLengths struct {
	lengths  []int // in tokens, ascending
	outdated bool  // the next step has other row lengths; only while an input is processed
	replaced replacedPackers
}

// replacedPackers are the totals of the packers before the last change of the row lengths. Documents, Tokens, Repeated
// and Truncated omit what was packed again; in the other totals, it counts each time.
type replacedPackers struct {
	counts packonline.Counts
	detail map[string]int64
}

// initRowLengths makes the queues, and the packer of the run, for row lengths. The packers of sources are removed.
func (p *Planner) initRowLengths(lengths []int) error {
	draws := p.queues.draws
	p.rowLengths.lengths, p.queues = lengths, newQueues(p.config, lengths)
	p.queues.draws = draws
	p.resizeSteps()
	p.packers = nil
	packing := p.config.Packing
	packing.Buckets = lengths
	return p.addPacker(packing)
}

// resizeSteps gives the next step the rows of the schedule, or blocks it until repack.
func (p *Planner) resizeSteps() {
	p.rowLengths.outdated = !slices.Equal(p.schedule.Buckets(p.config), p.rowLengths.lengths)
	if !p.rowLengths.outdated {
		p.queues.setStepRows(p.schedule.Rows())
	}
}

// repack replaces the packers, the shuffle window and the queues by empty ones for the row lengths of the next step,
// and packs all buffered tokens again. Tokens in steps are not repeated.
func (p *Planner) repack() {
	usedTokens := p.usedTokens()
	_, counts := p.Counts()
	detail := p.Detail()
	left, used, split := p.unusedDocuments(p.visitBuffered)
	counts.Documents -= int64(len(left))
	// The rest are documents that are in steps as a whole. A document whose last tokens are in a step is not in split.
	counts.Truncated = min(max(counts.Truncated-split, 0), counts.Documents)
	counts.Tokens -= plan.RowTokens(left)
	p.rowLengths.replaced = replacedPackers{counts, detail}
	p.window = shuffle.New[atom](p.config.Shuffle)
	p.fork.inheritedDocuments, p.fork.usedTokens = left, used
	err := p.initRowLengths(p.schedule.Buckets(p.config))
	for i := range p.sources.states {
		p.sources.states[i].packerIndex = 0
		if own := p.sources.ownPacking(i, p.rowLengths.lengths); own != nil && err == nil {
			p.sources.states[i].packerIndex = len(p.packers)
			err = p.addPacker(*own)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("loader: row lengths that were valid: %v", err))
	}
	p.sources.resetBalance()
	p.window.SetCost(p.sources.windowCost())
	// Repeats among the buffered tokens are gone: the number of used tokens has not changed.
	p.rowLengths.replaced.counts.Repeated += p.usedTokens() - usedTokens
	p.packInherited()
}

// resetBalance forgets what has left the window and the queues, which are empty now.
func (b *sourceSet) resetBalance() {
	b.windowTokens = 0
	for _, e := range []*shareBalancer{&b.rowBalancer, &b.stepBalancer} {
		e.deficits = make([]int64, len(e.deficits))
		e.deficitSquares, e.products = 0, 0
	}
}

// rowLengthState is the part of a planner's state about its row lengths.
type rowLengthState struct {
	Lengths []int             `json:"lengths"`
	Counts  packonline.Counts `json:"counts"`
	Detail  map[string]int64  `json:"detail,omitempty"`
}

// maxRowLengthBytes bounds the encoded rowLengthState in bytes.
const maxRowLengthBytes = 1 << 16

func (s rowLengthState) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("plan: marshal row lengths: %v", err)) // only numbers and names
	}
	return b
}

// appendState writes the state as JSON preceded by its length.
func (l *rowLengths) appendState(b []byte) []byte {
	return codec.AppendString(b, string(rowLengthState{l.lengths, l.replaced.counts, l.replaced.detail}.encode()))
}

// restoreRowLengths reads what appendState wrote, and makes packers of these lengths.
func (p *Planner) restoreRowLengths(r *codec.Cursor) error {
	encoded := r.Bytes(int(r.BoundedUvarint(maxRowLengthBytes)))
	if r.Err != nil {
		return r.Err
	}
	var s rowLengthState
	if err := json.Unmarshal(encoded, &s); err != nil {
		return fmt.Errorf("row lengths: %w", err)
	}
	if !bytes.Equal(s.encode(), encoded) || !p.schedule.HasBuckets(p.config, s.Lengths) {
		return errors.New("row lengths: they are of no phase, or written in another way than a daemon writes them")
	}
	p.rowLengths.replaced = replacedPackers{s.Counts, s.Detail}
	return p.initRowLengths(s.Lengths)
}
