package packonline

import (
	"slices"

	"loaderd/packonline/related"
)

// hold holds finished rows back, so that what leaves is a fair sample of the documents from the first row to the last. A row of one long
// document is finished at once, short documents wait in the pool for company: without a hold a run begins with too many of the former
// and ends with too many of the latter, or the other way round. With it the row leaves first whose tokens arrived earliest in the mean.
//
//   - The pieces of the rows that are held are as many as Config.Held says, and no more. Of rows whose tokens arrived equally early the
//     one that was packed first leaves first, so the rows of a long document follow each other; the rest of it does not leave before.
//   - A row with a piece that would be too old after one more document leaves now: the bound on ages includes the hold (invariant 4).
//   - At the end all rows leave, those of the flush among them, in the same order.
//   - invariant 6: the hold changes the order of rows. What is in them its Packer decides, which never learns of it.
//   - A row costs as much as its pieces: they are copied into slots and out of them again, and nothing is allocated or moved meanwhile.
type hold struct {
	Packer
	config  Config
	most    int       // pieces that may be held
	span    int64     // documents that a row may be held for after its oldest piece came
	now     int64     // documents that came
	packed  Rows      // what the Packer has just emitted
	slots   []slot    // of pieces
	vacant  int32     // first slot without a piece, linked
	rows    []heldRow // by number
	free    []int32   // numbers of rows without one
	byMean  calendar  // of the mean arrival of their tokens
	byFirst calendar  // of the arrival of their oldest pieces
	serial  int64     // of the row that was packed last
	counts  Counts    // Rows, Slots and Padding of the rows that are held
	pieces  int       // in them
}

// slot has a piece of a row that is held.
type slot struct {
	Piece
	arrived uint32 // the end of the clock's value
	next    int32  // slot of the row's next piece, or of the next vacant one
}

// heldRow is a row that is held.
type heldRow struct {
	slot   int32 // of its first piece
	pieces int32 // 0 for a number without a row
	length int32
	used   int32
	doc    uint64 // of its oldest piece
	serial int64
	links  [2]link // in the calendars
}

// Bounds of what is held.
const (
	maxHold   = 1000    // Config.Hold (unit: percent of the pool)
	holdShare = 4       // of MaxAge: what would be held for longer is too old before its turn comes, and leaves out of order
	holdPools = 16      // age in pools of which no piece is held: its row is the next to go
	maxSpan   = 1 << 20 // likewise, in documents
)

// Held returns how many pieces finished rows may have that are held back, for a configuration that is Relevant.
func (c Config) Held() int {
	n := int(int64(c.Pool) * int64(c.Hold) / 100)
	if c.MaxAge > 0 {
		n = min(n, c.MaxAge/holdShare)
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
	if c.MaxAge > 0 {
		span = min(span, c.MaxAge)
	}
	return &hold{Packer: p, config: c, most: c.Held(), span: int64(span), vacant: none, byMean: newCalendar(span, 0), byFirst: newCalendar(span, 1)}
}

func (h *hold) Add(d Doc, out *Rows) {
	h.Packer.Add(d, &h.packed)
	h.now++
	if old := h.now - h.span; h.byFirst.begins(old) {
		for i := h.byFirst.at(old); i != none; i = h.byFirst.at(old) {
			h.let(i, out)
		}
	}
	if h.packed.Len() > 0 {
		h.take(out)
		for h.pieces > h.most {
			h.let(h.next(), out)
		}
	}
}

func (h *hold) Flush(out *Rows) {
	h.Packer.Flush(&h.packed)
	h.take(out)
	out.grow(h.pieces, int(h.counts.Rows))
	for i := h.next(); i != none; i = h.next() {
		h.let(i, out)
	}
}

// next returns the row that is to leave next, none without one.
func (h *hold) next() int32 { return h.byMean.first(h.now - h.span) }

// late reports whether a piece that arrived then is too old to be held: it would have left with those of its time.
func (h *hold) late(arrived int64) bool { return h.byFirst.bin(arrived) <= h.byFirst.bin(h.now-h.span) }

// take holds the rows that were packed. Those that are too old for it leave at once.
func (h *hold) take(out *Rows) {
	for k := range h.packed.Len() {
		length, pieces, ages := h.packed.Row(k)
		if h.late(h.now - int64(slices.Max(ages))) {
			out.copy(length, pieces, ages)
			continue
		}
		h.hold(length, pieces, ages)
	}
	h.packed.Reset()
}

// hold holds a row.
func (h *hold) hold(length int32, pieces []Piece, ages []uint32) {
	i := h.number()
	r := &h.rows[i]
	h.serial++
	*r = heldRow{slot: none, pieces: int32(len(pieces)), length: length, doc: pieces[0].Doc, serial: h.serial}
	eldest := ages[0]
	var waited int64     // by all tokens; at most maxTable of them for maxSpan documents
	least := int64(none) // age of the document whose full rows are to leave before its rest, which is here
	for k := len(pieces) - 1; k >= 0; k-- {
		x, age := pieces[k], ages[k]
		r.slot = h.put(slot{x, uint32(h.now) - age, r.slot})
		r.used += x.Length
		waited += int64(x.Length) * int64(age)
		if age > eldest {
			eldest, r.doc = age, x.Doc
		}
		if x.Start > 0 && (least == none || int64(age) < least) {
			least = int64(age)
		}
	}
	mean := int64(eldest)
	if len(pieces) > 1 {
		mean = (waited + int64(r.used) - 1) / int64(r.used)
	}
	if least != none {
		mean = min(mean, least)
	}
	h.byMean.add(h.rows, h.now-mean, i)
	h.byFirst.add(h.rows, h.now-int64(eldest), i)
	h.counts.Rows++
	h.counts.Slots += int64(length)
	h.counts.Padding += int64(length - r.used)
	h.pieces += len(pieces)
}

// number returns a number for a row.
func (h *hold) number() int32 {
	if last := len(h.free) - 1; last >= 0 {
		i := h.free[last]
		h.free = h.free[:last]
		return i
	}
	h.rows = append(h.rows, heldRow{})
	return int32(len(h.rows) - 1)
}

// put puts a piece into a vacant slot.
func (h *hold) put(s slot) int32 {
	at := h.vacant
	if at == none {
		h.slots = append(h.slots, s)
		return int32(len(h.slots) - 1)
	}
	h.vacant = h.slots[at].next
	h.slots[at] = s
	return at
}

// let lets row i go.
func (h *hold) let(i int32, out *Rows) {
	r := &h.rows[i]
	last := r.slot
	for at := r.slot; at != none; at = h.slots[at].next {
		s := &h.slots[at]
		out.add(s.Piece, uint32(h.now)-s.arrived)
		last = at
	}
	out.close(r.length, false)
	h.slots[last].next, h.vacant = h.vacant, r.slot
	h.byMean.remove(h.rows, i)
	h.byFirst.remove(h.rows, i)
	h.counts.Rows--
	h.counts.Slots -= int64(r.length)
	h.counts.Padding -= int64(r.length - r.used)
	h.pieces -= int(r.pieces)
	r.pieces = 0
	h.free = append(h.free, i)
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
	i := h.byFirst.first(h.now - h.span)
	if i == none {
		return p
	}
	oldest := h.rows[i].doc // the other rows of its bin can be older
	for i = h.rows[i].links[h.byFirst.link].after; i != none; i = h.rows[i].links[h.byFirst.link].after {
		oldest = min(oldest, h.rows[i].doc)
	}
	if p.Pieces > 0 {
		oldest = min(oldest, p.Oldest)
	}
	return Pending{p.Pieces, int(h.counts.Rows), h.pieces, p.Tokens + h.counts.Slots - h.counts.Padding, oldest}
}

// hintedHold holds the rows of splice, which asks for hints and counts how its rows ended.
type hintedHold struct{ *hold }

func (h hintedHold) Detail() map[string]int64 { return h.Packer.(Detailed).Detail() }

func (h hintedHold) Unhinted() []uint64 { return h.Packer.(Hinted).Unhinted() }

func (h hintedHold) Hint(document uint64, x *related.Hint) { h.Packer.(Hinted).Hint(document, x) }
