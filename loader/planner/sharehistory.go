package planner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
)

// shareHistory keeps the shares by which the waiting tokens were taken. They are the targets of the tokens that leave,
// in the same order. So the steps follow a change of weights when the tokens taken before it have left, and the last
// steps have the shares of the last documents.
type shareHistory struct {
	least int64 // tokens: shares that hold for fewer are replaced by those that follow, so that the history is short
	spans []shareSpan
	noted []int64 // what add was called with last
}

// shareSpan is a range of the tokens taken, from one on to the next span.
type shareSpan struct {
	from   int64
	shares []int64 // by source: parts of mixture.Unit
}

// add notes the shares by which a document is taken when so many tokens have been taken; they are not changed later.
// Shares that change while no document is taken have no tokens: those of a source that turns out to have ended, for
// example.
func (h *shareHistory) add(tokens int64, shares []int64) {
	if len(shares) == len(h.noted) && &shares[0] == &h.noted[0] {
		return
	}
	h.noted = shares
	last := &h.spans[len(h.spans)-1]
	if slices.Equal(last.shares, shares) {
		return
	}
	if tokens-last.from < h.least {
		last.shares = shares
		return
	}
	h.spans = append(h.spans, shareSpan{tokens, shares})
}

// grow makes room for so many sources.
func (h *shareHistory) grow(sources int) {
	if len(h.spans) == 0 {
		h.spans = []shareSpan{{}}
	}
	for i := range h.spans {
		x := &h.spans[i]
		x.shares = append(slices.Clip(x.shares), make([]int64, sources-len(x.shares))...)
	}
}

// at returns the shares that held behind so many tokens taken, as far as they are kept.
func (h *shareHistory) at(tokens int64) []int64 {
	i := len(h.spans) - 1
	for i > 0 && h.spans[i].from > tokens {
		i--
	}
	return h.spans[i].shares
}

// forget drops the shares that held before so many tokens were taken.
func (h *shareHistory) forget(tokens int64) {
	n := 0
	for n+1 < len(h.spans) && h.spans[n+1].from <= tokens {
		n++
	}
	h.spans = slices.Delete(h.spans, 0, n)
}

// appendState writes the number of spans, and of each where it begins and all shares.
func (h *shareHistory) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h.spans)))
	for _, x := range h.spans {
		b = binary.AppendUvarint(b, uint64(x.from))
		for _, n := range x.shares {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// restoreState reads what appendState wrote when so many tokens had been taken from so many sources.
func (h *shareHistory) restoreState(r *codec.Cursor, tokens int64, sources int) {
	h.spans, h.noted = nil, nil
	for range r.Bounded(uint64(len(r.Rest))) {
		x, sum := shareSpan{from: int64(r.Bounded(uint64(tokens)))}, int64(0)
		for range sources {
			n := int64(r.Bounded(mixture.Unit))
			x.shares, sum = append(x.shares, n), sum+n
		}
		switch {
		case r.Err != nil:
		case sum != 0 && sum != mixture.Unit:
			r.Fail(fmt.Errorf("the shares of %d sources add up to %d", sources, sum))
		case len(h.spans) > 0 && x.from <= h.spans[len(h.spans)-1].from:
			r.Fail(fmt.Errorf("shares from %d tokens on follow those from %d on", x.from, h.spans[len(h.spans)-1].from))
		}
		if r.Err != nil {
			break
		}
		h.spans = append(h.spans, x)
	}
	if r.Err == nil && len(h.spans) == 0 {
		r.Fail(errors.New("no shares are named"))
	}
	h.grow(sources)
}
