package packonline

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// AppendState appends the state of the Packer, followed by the held rows in the order in which they were packed. It
// writes their number and, for each, the index of its row length, and its pieces as a list in the Packer's format.
func (h *hold) AppendState(b []byte) []byte {
	b = h.Packer.AppendState(b)
	b = binary.AppendUvarint(b, uint64(h.counts.Rows))
	lengths := h.config.rowLengths()
	var before bufferedPiece
	for i := range h.rows {
		if h.rows[i].used == 0 {
			continue
		}
		length, pieces, ages := h.packed.Row(i)
		b = binary.AppendUvarint(b, uint64(slices.Index(lengths, length)))
		b = binary.AppendUvarint(b, uint64(len(pieces)))
		for k, x := range pieces {
			age := ages[k] + uint32(h.clock) - h.rows[i].packedAt
			b = appendPiece(b, bufferedPiece{x.Doc, h.clock - int64(age), x.Start, x.Length}, &before)
		}
	}
	return b
}

func (h *hold) RestoreState(b []byte) ([]byte, error) {
	fresh := makeHold(findMethod(h.config.Method).make(h.config), h.config)
	b, err := fresh.Packer.RestoreState(b)
	if err != nil {
		return nil, err
	}
	r := reader{b: b}
	fresh.readRows(&r)
	if r.err != nil {
		return nil, fmt.Errorf("restore packer: %w", r.err)
	}
	*h = *fresh
	return r.b, nil
}

// readRows reads the held rows.
func (h *hold) readRows(r *reader) {
	t := newTally(h.config)
	t.counts, t.nextSeq = h.Packer.Counts(), h.Packer.NextSeq()
	h.clock = t.now()
	var before bufferedPiece
	for range r.number("rows that are held", min(int64(h.maxPieces), t.counts.Rows)) {
		length := t.lengths[r.number("for a row's length", int64(len(t.lengths)-1))]
		var used int64
		pieces := r.readPieces(&t, &before, &used)
		if r.err == nil && (used < 1 || used > int64(length)) {
			r.fail(fmt.Errorf("a row of %d tokens that is held has %d", length, used))
		}
		for _, w := range pieces {
			if h.isTooOld(w.arrived) {
				r.fail(fmt.Errorf("a piece of document %d is held and %d documents old, the bound is %d", w.doc,
					h.clock-w.arrived, h.maxWait))
			}
			h.packed.add(Piece{w.doc, w.start, w.length}, ageAt(h.clock, w))
		}
		if r.err != nil {
			return
		}
		h.packed.close(length, false)
		h.addRow(len(h.rows))
	}
	switch c := &h.counts; {
	case r.err != nil:
	case h.pieces > h.maxPieces:
		r.fail(fmt.Errorf("%d pieces are held, the bound is %d", h.pieces, h.maxPieces))
	case c.Slots > t.counts.Slots || c.Padding > t.counts.Padding || c.Slots-c.Padding > t.counts.Slots-t.counts.Padding:
		r.fail(fmt.Errorf("%d tokens and %d padding are held, %d and %d were packed", c.Slots-c.Padding, c.Padding,
			t.counts.Slots-t.counts.Padding, t.counts.Padding))
	}
}
