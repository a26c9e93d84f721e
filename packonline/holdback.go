package packonline

import (
	"math"

	"loaderd/packonline/internal/calendar"
	"loaderd/packonline/similarity"
)

// hold implements the holdback: it delays finished rows so that the output is a fair sample of the documents from the
// first row to the last. A row of one long document is finished immediately, while short documents are buffered in
// the pool. Without a holdback, a run begins with too many of the former and ends with too many of the latter, or
// vice versa. With it, the row whose tokens have the earliest mean arrival leaves first.
//
//   - The held rows have as many pieces as Config.Held returns, and no more. Of rows with equal mean arrival, the one
//     that was packed first leaves first. So the rows of a long document are consecutive, and the rest of the
//     document does not leave before them.
//   - A row with a piece that would be too old after one more document leaves immediately. The bound on ages includes
//     the holdback (invariant 4).
//   - At the end all rows leave in the same order, including those of the flush.
//   - invariant 6: the holdback only changes the order of rows. Their contents are determined by the Packer, which is
//     independent of the holdback.
//   - The Packer writes its rows directly into the holdback's storage, and a row that leaves is copied from it. The
//     storage of rows that have left is reclaimed when it is twice as large as what may be held. This costs half a
//     copy per row, and no memory is allocated in between.
type hold struct {
	Packer
	config      Config
	maxPieces   int            // maximum number of held pieces
	maxWait     int64          // maximum age of a row's oldest piece in the holdback, in documents
	clock       int64          // documents that have arrived
	packed      Rows           // output of the Packer since the last clear, with the ages at that time
	rows        []heldRow      // by number in packed
	byMean      calendar.Queue // by the mean arrival of their tokens
	byOldest    calendar.Queue // by the arrival of their oldest pieces
	oldest      uint64         // smallest Doc.Seq of the held rows, unless stale
	oldestStale bool
	counts      Counts // Rows, Slots and Padding of the held rows
	pieces      int    // in the held rows
}

// heldRow is a row that is, or was, held.
type heldRow struct {
	doc      uint64 // of its oldest piece
	packedAt uint32 // low bits of the clock when it was packed
	used     int32  // tokens, 0 once it has left
}

// Bounds of the holdback.
const (
	maxHold = 1000 // Config.Hold (unit: percent of the pool)
	// part of MaxAge: rows held for longer would become too old before their turn, and leave out of order
	holdShare  = 4
	holdPools  = 16      // age in pools above which no piece is held: its row leaves next
	maxRowWait = 1 << 20 // the same bound, in documents
	minCompact = 256     // minimum number of pieces in left and held rows at which left rows are cleared
)

// Held returns the maximum number of pieces in held rows. The configuration must be Relevant.
func (c Config) Held() int {
	n := int(int64(c.Pool) * int64(c.Holdback) / 100)
	if most := c.packerMaxAge(); most > 0 {
		n = min(n, most/holdShare)
	}
	return n
}

// newHold returns p with a holdback, or p itself if none is configured.
func newHold(p Packer, c Config) Packer {
	if c.Held() == 0 {
		return p
	}
	h := makeHold(p, c)
	if _, ok := p.(HintedPacker); ok {
		return hintedHold{h}
	}
	return h
}

func makeHold(p Packer, c Config) *hold {
	span := min(holdPools*c.Pool, maxRowWait)
	if most := c.packerMaxAge(); most > 0 {
		span = min(span, most)
	}
	return &hold{Packer: p, config: c, maxPieces: c.Held(), maxWait: int64(span), byMean: calendar.New(span),
		byOldest: calendar.New(span)}
}

func (h *hold) Add(d Doc, out *Rows) {
	h.Packer.Add(d, &h.packed)
	h.clock++
	if old := h.clock - h.maxWait; h.byOldest.IsBinStart(old) {
		for i := h.byOldest.FirstAt(old); i != none; i = h.byOldest.FirstAt(old) {
			h.emitRow(i, out)
		}
	}
	if h.packed.Len() == len(h.rows) {
		return
	}
	h.addPacked(out)
	for h.pieces > h.maxPieces {
		h.emitRow(h.nextRow(), out)
	}
	if len(h.packed.pieces) > max(3*h.maxPieces, minCompact) {
		h.compact()
	}
}

func (h *hold) Flush(out *Rows) {
	h.Packer.Flush(&h.packed)
	h.addPacked(out)
	out.grow(h.pieces, int(h.counts.Rows))
	for i := h.nextRow(); i != none; i = h.nextRow() {
		h.emitRow(i, out)
	}
	h.compact()
}

// nextRow returns the row that is to leave next, or none.
func (h *hold) nextRow() int32 { return h.byMean.First(h.clock - h.maxWait) }

// isTooOld reports whether a piece with the given arrival is too old to be held.
func (h *hold) isTooOld(arrived int64) bool {
	return h.byOldest.Bin(arrived) <= h.byOldest.Bin(h.clock-h.maxWait)
}

// addPacked holds the rows that were packed since the last call. Rows that are too old leave immediately.
func (h *hold) addPacked(out *Rows) {
	for i := len(h.rows); i < h.packed.Len(); i++ {
		if !h.addRow(i) {
			length, pieces, ages := h.packed.Row(i)
			out.appendRow(length, pieces, ages, 0)
		}
	}
}

// addRow holds row i, which was packed last, and reports whether it did. A row that is too old is not held.
func (h *hold) addRow(i int) bool {
	length, pieces, ages := h.packed.Row(i)
	r := heldRow{doc: pieces[0].Doc, packedAt: uint32(h.clock), used: pieces[0].Length}
	eldest, mean := ages[0], int64(ages[0])
	if len(pieces) > 1 {
		eldest, mean = r.computeTotals(pieces, ages)
	}
	first := h.clock - int64(eldest)
	if h.isTooOld(first) {
		h.rows = append(h.rows, heldRow{})
		return false
	}
	h.rows = append(h.rows, r)
	h.byMean.Add(h.clock-mean, int32(i))
	h.byOldest.Add(first, int32(i))
	if h.counts.Rows == 0 {
		h.oldest, h.oldestStale = r.doc, false
	}
	h.oldest = min(h.oldest, r.doc)
	h.counts.Rows++
	h.counts.Slots += int64(length)
	h.counts.Padding += int64(length - r.used)
	h.pieces += len(pieces)
	return true
}

// computeTotals computes the totals of a row's pieces. It returns the age of the oldest piece, and the age by which the
// row's turn is determined. That is the mean age of its tokens, or that of a document whose rest is in the row, because
// the document's full rows must leave first.
func (r *heldRow) computeTotals(pieces []Piece, ages []uint32) (eldest uint32, mean int64) {
	var waited int64 // sum over all tokens; at most maxTable of them times maxRowWait documents
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

// emitRow emits row i.
func (h *hold) emitRow(i int32, out *Rows) {
	r := &h.rows[i]
	length, pieces, ages := h.packed.Row(int(i))
	out.appendRow(length, pieces, ages, uint32(h.clock)-r.packedAt)
	h.byMean.Remove(i)
	h.byOldest.Remove(i)
	h.oldestStale = h.oldestStale || r.doc == h.oldest
	h.counts.Rows--
	h.counts.Slots -= int64(length)
	h.counts.Padding -= int64(length - r.used)
	h.pieces -= len(pieces)
	r.used = 0
}

// compact removes the rows that have left. The remaining rows are compacted in their order and renumbered. Each moves
// to a place whose row has already been read.
func (h *hold) compact() {
	rows := h.rows
	from := h.packed
	h.rows = h.rows[:0]
	h.packed.Reset()
	for i, r := range rows {
		if r.used == 0 {
			continue
		}
		length, pieces, ages := from.Row(i)
		h.packed.appendRow(length, pieces, ages, 0)
		h.rows = append(h.rows, r)
		n := int32(len(h.rows) - 1)
		h.byMean.Renumber(int32(i), n)
		h.byOldest.Renumber(int32(i), n)
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
	if h.oldestStale {
		h.oldest, h.oldestStale = h.oldestDoc(), false
	}
	oldest := h.oldest
	if p.Pieces > 0 {
		oldest = min(oldest, p.Oldest)
	}
	return Pending{p.Pieces, Held{int32(h.counts.Rows), int32(h.pieces)}, p.Tokens + h.counts.Slots - h.counts.Padding,
		oldest}
}

// Each calls f for the Packer's pieces and for those of the held rows.
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

// oldestDoc returns the smallest Doc.Seq of the held rows.
func (h *hold) oldestDoc() uint64 {
	i := h.byOldest.First(h.clock - h.maxWait)
	oldest := h.rows[i].doc // other rows of its bin may be older
	for i = h.byOldest.Next(i); i != none; i = h.byOldest.Next(i) {
		oldest = min(oldest, h.rows[i].doc)
	}
	return oldest
}

// hintedHold is a hold for splice, whose packer implements Hinted and Detailed.
type hintedHold struct{ *hold }

func (h hintedHold) Detail() map[string]int64 { return h.Packer.(DetailedPacker).Detail() }

func (h hintedHold) MissingHints() []uint64 { return h.Packer.(HintedPacker).MissingHints() }

func (h hintedHold) SetHint(document uint64, x *similarity.Hint) {
	h.Packer.(HintedPacker).SetHint(document, x)
}
