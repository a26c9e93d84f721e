package packonline

import (
	"fmt"
	"math"
)

// packerBase is the state common to all methods: the configuration and the counts. The number of documents is the only
// clock.
type packerBase struct {
	config  Config
	lengths []int32 // of rows as packed, ascending
	longest int32   // the longest of these
	maxAge  int     // maximum age of a piece when it is emitted, 0 for no bound
	nextSeq uint64  // smallest Doc.Seq that is accepted
	counts  Counts
}

// bufferedPiece is a piece that is buffered to be packed.
type bufferedPiece struct {
	doc     uint64
	arrived int64 // value of the clock when its document arrived
	start   int32
	length  int32
}

func newTally(c Config) packerBase {
	lengths := c.rowLengths()
	return packerBase{config: c, lengths: lengths, longest: lengths[len(lengths)-1], maxAge: c.packerMaxAge()}
}

func (t *packerBase) Counts() Counts { return t.counts }

func (t *packerBase) NextSeq() uint64 { return t.nextSeq }

// countDocument counts a document.
func (t *packerBase) countDocument(d Doc) {
	if d.Length < 1 {
		panic(fmt.Sprintf("packonline: document %d has length %d", d.Seq, d.Length))
	}
	if d.Seq < t.nextSeq {
		panic(fmt.Sprintf("packonline: document %d follows document %d: sequences must increase", d.Seq, t.nextSeq-1))
	}
	t.nextSeq = d.Seq + 1
	t.counts.Documents++
	t.counts.Tokens += int64(d.Length)
}

func (t *packerBase) now() int64 { return t.counts.Documents }

func (t *packerBase) age(w bufferedPiece) uint32 { return ageAt(t.now(), w) }

func ageAt(now int64, w bufferedPiece) uint32 { return uint32(min(now-w.arrived, math.MaxUint32)) }

// isDue reports whether a piece would exceed the bound on ages if it waited for early+1 more documents.
func (t *packerBase) isDue(w bufferedPiece, early int) bool {
	return t.maxAge > 0 && t.now()-w.arrived >= int64(t.maxAge-early)
}

// documentsLeft returns how many more documents fit into a row of n.
func (t *packerBase) documentsLeft(n int) int {
	if t.config.MaxDocumentsPerRow == 0 {
		return math.MaxInt32
	}
	return t.config.MaxDocumentsPerRow - n
}

// checkDocuments returns an error if a row under construction, which is not full, has n documents.
func (t *packerBase) checkDocuments(n int) error {
	if t.documentsLeft(n) > 0 {
		return nil
	}
	return fmt.Errorf("restore packer: %d documents wait for a row that has at most %d", n, t.config.MaxDocumentsPerRow)
}

// emitFullRows emits the full rows of a document that is at least as long as the longest row, and returns the start of
// its remainder.
func (t *packerBase) emitFullRows(d Doc, out *Rows) (start int32) {
	for ; d.Length-start >= t.longest; start += t.longest {
		out.add(Piece{d.Seq, start, t.longest}, 0)
		t.closeRow(t.longest, t.longest, out)
	}
	return start
}

// closeRow completes the row under construction, of which used of length tokens are filled.
func (t *packerBase) closeRow(length, used int32, out *Rows) { t.endRow(length, used, false, out) }

// closeJoinedRow completes the row under construction, which is in the same atom as the row before it.
func (t *packerBase) closeJoinedRow(length, used int32, out *Rows) { t.endRow(length, used, true, out) }

func (t *packerBase) endRow(length, used int32, joined bool, out *Rows) {
	out.close(length, joined)
	t.counts.Rows++
	t.counts.Slots += int64(length)
	t.counts.Padding += int64(length - used)
}

// pending returns the Pending of the given number of buffered pieces. oldest is the oldest of them, or nil. It is
// called after every document.
func (t *packerBase) pending(pieces int, oldest *bufferedPiece) Pending {
	c := &t.counts
	p := Pending{Pieces: pieces, Tokens: c.Tokens - c.Slots + c.Padding + c.Repeated - c.Dropped}
	if oldest != nil {
		p.Oldest = oldest.doc
	}
	return p
}

// eachPiece calls f with every piece of the lists.
func eachPiece(f func(Piece), lists ...[]bufferedPiece) {
	for _, pieces := range lists {
		for i := range pieces {
			w := &pieces[i]
			f(Piece{w.doc, w.start, w.length})
		}
	}
}

// firstPiece returns the first of the pieces, or nil.
func firstPiece(pieces []bufferedPiece) *bufferedPiece {
	if len(pieces) == 0 {
		return nil
	}
	return &pieces[0]
}
