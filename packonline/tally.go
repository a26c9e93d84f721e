package packonline

import (
	"fmt"
	"math"
)

// tally is what every method with one row length keeps: its configuration and its counts. The number of documents is the
// only clock there is.
type tally struct {
	config Config
	length int32  // of a row
	next   uint64 // least Doc.Seq that may come
	counts Counts
}

// waiting is a piece that waits to be packed.
type waiting struct {
	doc     uint64
	arrived int64 // value of the clock when its document arrived
	start   int32
	length  int32
}

func newTally(c Config) tally { return tally{config: c, length: int32(c.Buckets[0])} }

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

func (t *tally) age(w waiting) uint32 { return uint32(min(t.now()-w.arrived, math.MaxUint32)) }

// due reports whether a piece would break the bound on ages if it waited for early+1 more documents.
func (t *tally) due(w waiting, early int) bool {
	return t.config.MaxAge > 0 && t.now()-w.arrived >= int64(t.config.MaxAge-early)
}

// close ends the row under construction, of which used tokens are filled.
func (t *tally) close(used int32, out *Rows) {
	out.close(t.length)
	t.counts.Rows++
	t.counts.Slots += int64(t.length)
	t.counts.Padding += int64(t.length - used)
}

// pending describes the pieces that wait, which are in order of arrival.
func (t *tally) pending(pieces []waiting) Pending {
	p := Pending{Pieces: len(pieces), Tokens: t.counts.Tokens - t.counts.Slots + t.counts.Padding}
	if p.Pieces > 0 {
		p.Oldest = pieces[0].doc
	}
	return p
}
