package packonline

import (
	"math"

	"loaderd/packonline/related"
)

// hold holds finished rows back, so that what leaves is a fair sample of the documents from the first row to the last.
// A row of one long document is finished at once, short documents wait in the pool for company: without a hold a run
// begins with too many of the former and ends with too many of the latter, or the other way round. With it the row
// leaves first whose tokens arrived earliest in the mean.
//
//   - The pieces of the rows that are held are as many as Config.Held says, and no more. Of rows whose tokens arrived
//     equally early the
//     one that was packed first leaves first, so the rows of a long document follow each other; the rest of it does not
//     leave before.
//   - A row with a piece that would be too old after one more document leaves now: the bound on ages includes the hold
//     (invariant 4).
//   - At the end all rows leave, those of the flush among them, in the same order.
//   - invariant 6: the hold changes the order of rows. What is in them its Packer decides, which never learns of it.
//   - The Packer writes its rows where they are held, and a row that leaves is copied from there. What has left is
//     cleared away when it
//     is twice as much as may be held: half a copy a row, and nothing is allocated meanwhile.
type hold struct {
	Packer
	config  Config
	most    int       // pieces that may be held
	span    int64     // documents that a row may be held for after its oldest piece came
	now     int64     // documents that came
	packed  Rows      // what the Packer emitted since the last clearing, of ages when it did
	rows    []heldRow // by number in packed
	byMean  calendar  // of the mean arrival of their tokens
	byFirst calendar  // of the arrival of their oldest pieces
	oldest  uint64    // smallest Doc.Seq of the rows that are held; unless stale
	stale   bool
	counts  Counts // Rows, Slots and Padding of the rows that are held
	pieces  int    // in them
}

// heldRow is a row that is held, or was.
type heldRow struct {
	doc    uint64 // of its oldest piece
	packed uint32 // the end of the clock's value when it was packed
	used   int32  // tokens, 0 when it has left
	links  [2]link
}

// Bounds of what is held.
const (
	maxHold = 1000 // Config.Hold (unit: percent of the pool)
	// of MaxAge: what would be held for longer is too old before its turn comes, and leaves out of order
	holdShare = 4
	holdPools = 16      // age in pools of which no piece is held: its row is the next to go
	maxSpan   = 1 << 20 // likewise, in documents
	minClear  = 256     // pieces in rows that have left or are held, before the former are cleared away
)

// Held returns how many pieces finished rows may have that are held back, for a configuration that is Relevant.
func (c Config) Held() int {
	n := int(int64(c.Pool) * int64(c.Hold) / 100)
	if most := c.packAge(); most > 0 {
		n = min(n, most/holdShare)
	}
	return n
}

// newHold returns p with its rows held back, or p itself where none are to be.
func newHold(p Packer, c Config) Packer {
	if c.Held() == 0 {
		return p
	}
	h := makeHold(p, c)
	if _, ok := p.(Hinted); ok {
		return hintedHold{h}
	}
	return h
}

func makeHold(p Packer, c Config) *hold {
	span := min(holdPools*c.Pool, maxSpan)
	if most := c.packAge(); most > 0 {
		span = min(span, most)
	}
	return &hold{Packer: p, config: c, most: c.Held(), span: int64(span), byMean: newCalendar(span, 0),
		byFirst: newCalendar(span, 1)}
}

func (h *hold) Add(d Doc, out *Rows) {
	h.Packer.Add(d, &h.packed)
	h.now++
	if old := h.now - h.span; h.byFirst.begins(old) {
		for i := h.byFirst.at(old); i != none; i = h.byFirst.at(old) {
			h.let(i, out)
		}
	}
	if h.packed.Len() == len(h.rows) {
		return
	}
	h.take(out)
	for h.pieces > h.most {
		h.let(h.next(), out)
	}
	if len(h.packed.pieces) > max(3*h.most, minClear) {
		h.clear()
	}
}

func (h *hold) Flush(out *Rows) {
	h.Packer.Flush(&h.packed)
	h.take(out)
	out.grow(h.pieces, int(h.counts.Rows))
	for i := h.next(); i != none; i = h.next() {
		h.let(i, out)
	}
	h.clear()
}

// next returns the row that is to leave next, none without one.
func (h *hold) next() int32 { return h.byMean.first(h.now - h.span) }

// late reports whether a piece that arrived then is too old to be held: it would have left with those of its time.
func (h *hold) late(arrived int64) bool { return h.byFirst.bin(arrived) <= h.byFirst.bin(h.now-h.span) }

// take holds the rows that were packed. Those that are too old for it leave at once.
func (h *hold) take(out *Rows) {
	for i := len(h.rows); i < h.packed.Len(); i++ {
		if !h.hold(i) {
			length, pieces, ages := h.packed.Row(i)
			out.copy(length, pieces, ages, 0)
		}
	}
}

// hold holds row i, which was packed last, and reports whether it did: unless it is too old.
func (h *hold) hold(i int) bool {
	length, pieces, ages := h.packed.Row(i)
	r := heldRow{doc: pieces[0].Doc, packed: uint32(h.now), used: pieces[0].Length}
	eldest, mean := ages[0], int64(ages[0])
	if len(pieces) > 1 {
		eldest, mean = r.sum(pieces, ages)
	}
	first := h.now - int64(eldest)
	if h.late(first) {
		h.rows = append(h.rows, heldRow{})
		return false
	}
	h.rows = append(h.rows, r)
	h.byMean.schedule(h.rows, h.now-mean, int32(i))
	h.byFirst.schedule(h.rows, first, int32(i))
	if h.counts.Rows == 0 {
		h.oldest, h.stale = r.doc, false
	}
	h.oldest = min(h.oldest, r.doc)
	h.counts.Rows++
	h.counts.Slots += int64(length)
	h.counts.Padding += int64(length - r.used)
	h.pieces += len(pieces)
	return true
}

// sum sums up the pieces of a row. It returns the age of the oldest one, and the one by which the row is to leave: that
// of its tokens in the mean, or that of a document whose full rows are to leave before its rest, which is here.
func (r *heldRow) sum(pieces []Piece, ages []uint32) (eldest uint32, mean int64) {
	var waited int64 // by all tokens; at most maxTable of them for maxSpan documents
	least := int64(math.MaxInt64)
	r.used = 0
	for k, x := range pieces {
		age := ages[k]
		r.used += x.Length
		waited += int64(x.Length) * int64(age)
		if age > eldest || k == 0 {
			eldest, r.doc = age, x.Doc
		}
		if x.Start > 0 {
			least = min(least, int64(age))
		}
	}
	return eldest, min((waited+int64(r.used)-1)/int64(r.used), least)
}

// let lets row i go.
func (h *hold) let(i int32, out *Rows) {
	r := &h.rows[i]
	length, pieces, ages := h.packed.Row(int(i))
	out.copy(length, pieces, ages, uint32(h.now)-r.packed)
	h.byMean.remove(h.rows, i)
	h.byFirst.remove(h.rows, i)
	h.stale = h.stale || r.doc == h.oldest
	h.counts.Rows--
	h.counts.Slots -= int64(length)
	h.counts.Padding -= int64(length - r.used)
	h.pieces -= len(pieces)
	r.used = 0
}

// clear clears away the rows that have left. The others move together, in their order, and so do their numbers: each to
// a place whose row has been read.
func (h *hold) clear() {
	rows := h.rows
	from := h.packed
	h.rows = h.rows[:0]
	h.packed.Reset()
	for i, r := range rows {
		if r.used == 0 {
			continue
		}
		length, pieces, ages := from.Row(i)
		h.packed.copy(length, pieces, ages, 0)
		h.rows = append(h.rows, r)
		h.byMean.renumber(h.rows)
		h.byFirst.renumber(h.rows)
	}
}

func (h *hold) Counts() Counts {
	c := h.Packer.Counts()
	c.Rows -= h.counts.Rows
	c.Slots -= h.counts.Slots
	c.Padding -= h.counts.Padding
	return c
}

func (h *hold) Pending() Pending {
	p := h.Packer.Pending()
	if h.counts.Rows == 0 {
		return p
	}
	if h.stale {
		h.oldest, h.stale = h.first(), false
	}
	oldest := h.oldest
	if p.Pieces > 0 {
		oldest = min(oldest, p.Oldest)
	}
	return Pending{p.Pieces, Held{int32(h.counts.Rows), int32(h.pieces)}, p.Tokens + h.counts.Slots - h.counts.Padding,
		oldest}
}

// Each calls f for the Packer's pieces and for those of the rows that are held.
func (h *hold) Each(f func(Piece)) {
	h.Packer.Each(f)
	for i := range h.rows {
		if h.rows[i].used == 0 {
			continue
		}
		_, pieces, _ := h.packed.Row(i)
		for _, x := range pieces {
			f(x)
		}
	}
}

// first returns the smallest Doc.Seq of the rows that are held.
func (h *hold) first() uint64 {
	i := h.byFirst.first(h.now - h.span)
	oldest := h.rows[i].doc // the other rows of its bin can be older
	for i = h.rows[i].links[h.byFirst.link].after; i != none; i = h.rows[i].links[h.byFirst.link].after {
		oldest = min(oldest, h.rows[i].doc)
	}
	return oldest
}

// hintedHold holds the rows of splice, which asks for hints and counts how its rows ended.
type hintedHold struct{ *hold }

func (h hintedHold) Detail() map[string]int64 { return h.Packer.(Detailed).Detail() }

func (h hintedHold) Unhinted() []uint64 { return h.Packer.(Hinted).Unhinted() }

func (h hintedHold) Hint(document uint64, x *related.Hint) { h.Packer.(Hinted).Hint(document, x) }
