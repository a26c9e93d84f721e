package planner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
)

// shareHistory holds the shares by which the buffered tokens were taken. They are the targets for the tokens that
// leave, in the same order. So steps follow a change of weights once the tokens taken before it have left. The last
// steps have the shares of the last documents.
type shareHistory struct {
	minSpanTokens int64 // in tokens; shares that apply to fewer tokens are replaced by the next ones, to bound the history
	spans         []shareSpan
	lastShares    []int64 // argument of the last call of add
}

// shareSpan is a range of the taken tokens, from a token up to the next span.
type shareSpan struct {
	from   int64
	shares []int64 // by source: parts of mixture.Unit
}

// add records the shares by which a document is taken after the given number of tokens. The caller must not modify
// shares later. Shares that change while no document is taken apply to no tokens, for example the shares before a
// source turns out to have ended.
func (h *shareHistory) add(tokens int64, shares []int64) {
	if len(shares) == len(h.lastShares) && &shares[0] == &h.lastShares[0] {
		return
	}
	h.lastShares = shares
	last := &h.spans[len(h.spans)-1]
	if slices.Equal(last.shares, shares) {
		return
	}
	if tokens-last.from < h.minSpanTokens {
		last.shares = shares
		return
	}
	h.spans = append(h.spans, shareSpan{tokens, shares})
}

// extendTo extends the spans to the given number of sources.
func (h *shareHistory) extendTo(sources int) {
	if len(h.spans) == 0 {
		h.spans = []shareSpan{{}}
	}
	for i := range h.spans {
		x := &h.spans[i]
		x.shares = append(slices.Clip(x.shares), make([]int64, sources-len(x.shares))...)
	}
}

// sharesAt returns the shares that applied after the given number of taken tokens, or the oldest that are kept.
func (h *shareHistory) sharesAt(tokens int64) []int64 {
	i := len(h.spans) - 1
	for i > 0 && h.spans[i].from > tokens {
		i--
	}
	return h.spans[i].shares
}

// forgetBefore removes the shares that only applied before the given number of taken tokens.
func (h *shareHistory) forgetBefore(tokens int64) {
	n := 0
	for n+1 < len(h.spans) && h.spans[n+1].from <= tokens {
		n++
	}
	h.spans = slices.Delete(h.spans, 0, n)
}

// appendState writes the number of spans and, of each, its start and all shares.
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

// restoreState reads what appendState wrote. tokens and sources are the numbers of taken tokens and of sources at
// that time.
func (h *shareHistory) restoreState(r *codec.Cursor, tokens int64, sources int) {
	h.spans, h.lastShares = nil, nil
	for range r.BoundedUvarint(uint64(len(r.Buf))) {
		x, sum := shareSpan{from: int64(r.BoundedUvarint(uint64(tokens)))}, int64(0)
		for range sources {
			n := int64(r.BoundedUvarint(mixture.Unit))
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
	h.extendTo(sources)
}
