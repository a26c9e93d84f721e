package packonline

import (
	"fmt"
	"math"
)

// tally is the state common to all methods: the configuration and the counts. The number of documents is the only
// clock.
type tally struct {
	config  Config
	lengths []int32 // of rows as packed, ascending
	longest int32   // the longest of these
	maxAge  int     // maximum age of a piece when it is emitted, 0 for no bound
	next    uint64  // smallest Doc.Seq that is accepted
	counts  Counts
}

// waiting is a piece that is buffered to be packed.
type waiting struct {
	doc     uint64
	arrived int64 // value of the clock when its document arrived
	start   int32
	length  int32
}

func newTally(c Config) tally {
	lengths := c.rowLengths()
	return tally{config: c, lengths: lengths, longest: lengths[len(lengths)-1], maxAge: c.packAge()}
}

func (t *tally) Counts() Counts { return t.counts }

func (t *tally) Next() uint64 { return t.next }

// arrive counts a document.
func (t *tally) arrive(d Doc) {
	if d.Length < 1 {
		panic(fmt.Sprintf("packonline: document %d has length %d", d.Seq, d.Length))
	}
	if d.Seq < t.next {
		panic(fmt.Sprintf("packonline: document %d comes after document %d", d.Seq, t.next-1))
	}
	t.next = d.Seq + 1
	t.counts.Documents++
	t.counts.Tokens += int64(d.Length)
}

func (t *tally) now() int64 { return t.counts.Documents }

func (t *tally) age(w waiting) uint32 { return age(t.now(), w) }

func age(now int64, w waiting) uint32 { return uint32(min(now-w.arrived, math.MaxUint32)) }

// due reports whether a piece would exceed the bound on ages if it waited for early+1 more documents.
func (t *tally) due(w waiting, early int) bool {
	return t.maxAge > 0 && t.now()-w.arrived >= int64(t.maxAge-early)
}

// cut emits the full rows of a document that is at least as long as the longest row, and returns the start of its
// remainder.
func (t *tally) cut(d Doc, out *Rows) (start int32) {
	for ; d.Length-start >= t.longest; start += t.longest {
		out.add(Piece{d.Seq, start, t.longest}, 0)
		t.close(t.longest, t.longest, out)
	}
	return start
}

// close completes the row under construction, of which used of length tokens are filled.
func (t *tally) close(length, used int32, out *Rows) { t.end(length, used, false, out) }

// join completes the row under construction, which is in the same atom as the row before it.
func (t *tally) join(length, used int32, out *Rows) { t.end(length, used, true, out) }

func (t *tally) end(length, used int32, joined bool, out *Rows) {
	out.close(length, joined)
	t.counts.Rows++
	t.counts.Slots += int64(length)
	t.counts.Padding += int64(length - used)
}

// pending returns the Pending of the given number of buffered pieces. oldest is the oldest of them, or nil. It is
// called after every document.
func (t *tally) pending(pieces int, oldest *waiting) Pending {
	c := &t.counts
	p := Pending{Pieces: pieces, Tokens: c.Tokens - c.Slots + c.Padding + c.Repeated - c.Dropped}
	if oldest != nil {
		p.Oldest = oldest.doc
	}
	return p
}

// each calls f with every piece of the lists.
func each(f func(Piece), lists ...[]waiting) {
	for _, pieces := range lists {
		for i := range pieces {
			w := &pieces[i]
			f(Piece{w.doc, w.start, w.length})
		}
	}
}

// first returns the first of the pieces, or nil.
func first(pieces []waiting) *waiting {
	if len(pieces) == 0 {
		return nil
	}
	return &pieces[0]
}
