package packonline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// stateVersion is the version of the format of AppendState, the same for all methods with one row length:
//
//	version byte
//	configuration: length of the method's name and the name, then row length, pool, max age, seed
//	totals: documents, rows, padding, truncated documents, least sequence that may come next
//	number of waiting pieces, and for each in order of arrival: sequences since the piece before (since 0 for the first),
//	documents since then (likewise), length * 2 + (start > 0), and the start if it is not 0
//
// All numbers are uvarints. The other totals follow from these by conservation.
const stateVersion = 1

var errShort = errors.New("state is cut short")

func (t *tally) appendState(b []byte, pieces []waiting) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, uint64(len(t.config.Method)))
	b = append(b, t.config.Method...)
	for _, n := range []int{int(t.length), t.config.Pool, t.config.MaxAge} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, t.config.Seed)
	for _, n := range []int64{t.counts.Documents, t.counts.Rows, t.counts.Padding, t.counts.Truncated} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, t.next)
	b = binary.AppendUvarint(b, uint64(len(pieces)))
	var before waiting
	for _, w := range pieces {
		b = binary.AppendUvarint(b, w.doc-before.doc)
		b = binary.AppendUvarint(b, uint64(w.arrived-before.arrived))
		if w.start == 0 {
			b = binary.AppendUvarint(b, uint64(w.length)<<1)
		} else {
			b = binary.AppendUvarint(b, uint64(w.length)<<1|1)
			b = binary.AppendUvarint(b, uint64(w.start))
		}
		before = w
	}
	return b
}

// readState returns the tally and the waiting pieces of a state, and the bytes behind it. It leaves t as it is.
func (t *tally) readState(b []byte) (restored tally, pieces []waiting, rest []byte, err error) {
	restored = newTally(t.config)
	r := reader{b: b}
	r.config(&restored)
	c := &restored.counts
	c.Documents = r.number("documents", math.MaxInt64)
	c.Rows = r.number("rows", math.MaxInt64/int64(t.length)/2)
	c.Slots = c.Rows * int64(t.length)
	c.Padding = r.number("padding tokens", c.Slots)
	c.Truncated = r.number("truncated documents", c.Documents)
	restored.next = r.uvarint()
	pieces = r.pieces(&restored)
	if r.err == nil && (c.Tokens < c.Documents || restored.next < uint64(c.Documents)) {
		r.err = fmt.Errorf("%d documents can not have %d tokens and sequences below %d", c.Documents, c.Tokens, restored.next)
	}
	if r.err != nil {
		return tally{}, nil, nil, fmt.Errorf("restore packer: %w", r.err)
	}
	return restored, pieces, r.b, nil
}

// reader takes a state apart. After its first error it reads zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) number(what string, most int64) int64 {
	v := r.uvarint()
	if v > uint64(most) {
		r.fail(fmt.Errorf("state has %d %s, at most %d can be", v, what, most))
		return 0
	}
	return int64(v)
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// config checks that the state is of this format and of the configuration of t.
func (r *reader) config(t *tally) {
	if len(r.b) == 0 {
		r.fail(errShort)
		return
	}
	if r.b[0] != stateVersion {
		r.fail(fmt.Errorf("state has format version %d, this program reads %d", r.b[0], stateVersion))
		return
	}
	r.b = r.b[1:]
	n := r.number("bytes of method", int64(len(r.b)))
	if n > int64(len(r.b)) {
		r.fail(errShort)
		return
	}
	if method := string(r.b[:n]); r.err == nil && method != t.config.Method {
		r.fail(fmt.Errorf("state has method %.20q, the configuration %q", method, t.config.Method))
		return
	}
	r.b = r.b[n:]
	for _, f := range []struct {
		name string
		want uint64
	}{
		{"row length", uint64(t.length)},
		{"pool", uint64(t.config.Pool)},
		{"max_age", uint64(t.config.MaxAge)},
		{"seed", t.config.Seed},
	} {
		if have := r.uvarint(); r.err == nil && have != f.want {
			r.fail(fmt.Errorf("state has %s %d, the configuration %d", f.name, have, f.want))
		}
	}
}

// pieces reads the waiting pieces and adds up the tokens of t.
func (r *reader) pieces(t *tally) []waiting {
	const least = 3 // bytes a piece
	n := r.uvarint()
	if n > uint64(len(r.b)/least) {
		r.fail(errShort)
		return nil
	}
	pieces := make([]waiting, 0, n)
	var before waiting
	var tokens int64
	for range n {
		sequences, documents := r.uvarint(), r.uvarint()
		length := r.number("tokens in a piece", int64(t.length)*2-1)
		w := waiting{before.doc + sequences, before.arrived + int64(documents), 0, int32(length >> 1)}
		if length&1 == 1 {
			w.start = int32(r.number("tokens before a piece", math.MaxInt32-length>>1))
		}
		if r.err == nil {
			r.err = t.check(w, before, len(pieces) == 0)
		}
		if r.err != nil {
			return nil
		}
		pieces = append(pieces, w)
		tokens += int64(w.length)
		before = w
	}
	t.counts.Tokens = t.counts.Slots - t.counts.Padding + tokens
	return pieces
}

// check reports why w can not wait behind the piece before it.
func (t *tally) check(w, before waiting, first bool) error {
	now := t.counts.Documents
	switch {
	case w.length < 1:
		return fmt.Errorf("a piece of document %d is empty", w.doc)
	case w.arrived <= before.arrived || w.arrived > now:
		return fmt.Errorf("a piece came with document number %d after number %d of %d", w.arrived, before.arrived, now)
	case w.doc >= t.next || t.next-w.doc <= uint64(now-w.arrived):
		return fmt.Errorf("a piece is of document %d, too late for one with %d after it and sequences below %d", w.doc, now-w.arrived, t.next)
	case first && w.doc < uint64(w.arrived-1), !first && (w.doc < before.doc || w.doc-before.doc < uint64(w.arrived-before.arrived)):
		return fmt.Errorf("a piece of document %d is number %d, after document %d, number %d", w.doc, w.arrived, before.doc, before.arrived)
	case t.due(w, 0):
		return fmt.Errorf("a piece of document %d is %d documents old, the bound is %d", w.doc, now-w.arrived, t.config.MaxAge)
	}
	return nil
}
