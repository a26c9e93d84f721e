// Package similarity finds the documents of a bounded pool that are most related to one of them: the retrievers of
// SPLICE (Structured Packing for Long Context, section 3), online.
//
// It is pure: it has integer scores, no clock, no randomness and no I/O. Its results depend only on the documents in
// the pool, not on the order in which they were added and removed, and not on their slots.
package similarity

import (
	"fmt"
	"math"
	"slices"
)

// Retrievers are the valid values of Config.Retriever.
var Retrievers = []string{"bm25", "repo", "dense"}

// Config selects a retriever.
type Config struct {
	// Retriever selects what relates documents: bm25 (shared rare tokens), repo (the folders of their paths) or dense
	// (embeddings supplied with them).
	Retriever string
	// PathBonus raises the score of a document from the same folder (unit: percent of the score). repo does not read it.
	PathBonus int
	// NearDuplicate skips documents with a score above this share of the querying document's score with itself (unit:
	// percent). 0 skips none. repo does not read it.
	NearDuplicate int
	// Postings bounds the work of a query: the number of entries of lists that bm25 and repo read, rarest lists first. A
	// list is read completely or not at all.
	Postings int
	// Dimension is the length of dense's vectors.
	Dimension int
}

// Bounds of a Config.
const (
	MaxPostings  = 1 << 20
	MaxDimension = 1024
	MaxPercent   = 1000
)

// Hint is the data by which a document is related to others. It is made from the document alone, so a document that
// is read again has the same hint.
type Hint struct {
	Source uint32   // documents of different sources are not related
	Terms  []uint32 // for bm25, see Terms
	Path   []uint64 // for repo and PathBonus, see Path
	Vector []int8   // for dense, see Vector; empty: related to nothing
}

// HasData reports whether a document has the data that the retriever compares: a path, an embedding that is not zero,
// or a term.
func (c Config) HasData(h *Hint) bool {
	switch {
	case h == nil:
		return false
	case c.Retriever == "repo":
		return len(h.Path) > 0
	case c.Retriever == "dense":
		return slices.ContainsFunc(h.Vector, func(v int8) bool { return v != 0 })
	default:
		return len(h.Terms) > 0
	}
}

// Entry is a document of the pool.
type Entry struct {
	Seq    uint64 // of equally related ones, lower values are first
	Length int32  // tokens
	Hint   *Hint  // nil: related to nothing
}

// Candidate is a result of a query.
type Candidate struct {
	Slot  int32
	Score int32 // above 0; only comparable within one result
}

// Index holds the documents of a pool. Each is in a slot, a small number chosen by the caller. Internally, each also
// has a seat, which the finder may keep for some time after the document was removed.
type Index struct {
	config      Config
	seats       []int32 // by slot
	entries     []entry // by seat
	free        []int32 // seats
	scoredSeats []int32 // seats with a score
	scores      []int32 // by seat
	topK        selection
	retriever
}

type entry struct {
	slot   int32
	length int32
	group  uint64 // source and hidden bit: must be equal to match
	seq    uint64
	folder uint64
	hint   *Hint
}

// hiddenBit is the bit of a group that is never set in a query.
const hiddenBit = 1 << 32

// query is a query: the documents that may be results.
type query struct {
	seat       int32 // the querying document
	maxResults int   // maximum number of results
	maxLength  int32
	group      uint64
}

func (x *Index) canMatch(q query, seat int32) bool {
	e := &x.entries[seat]
	return e.group == q.group && e.length <= q.maxLength && seat != q.seat
}

// retriever is the part that differs between retrievers.
type retriever interface {
	add(x *Index, seat int32, h *Hint)
	// remove frees the seat in x, immediately or later.
	remove(x *Index, seat int32, h *Hint)
	// top appends the best results to dst, which is empty, best first.
	top(x *Index, q query, h *Hint, dst []Candidate) []Candidate
}

// New returns an empty index. The configuration must be valid.
func New(c Config) *Index {
	x := &Index{config: c}
	switch c.Retriever {
	case "bm25":
		x.retriever = newBM25(c.Postings)
	case "repo":
		x.retriever = newRepo(c.Postings)
	case "dense":
		x.retriever = newDense(c.Dimension)
	default:
		panic(fmt.Sprintf("related: no retriever %q", c.Retriever))
	}
	return x
}

// Add puts a document into a free slot.
func (x *Index) Add(slot int32, e Entry) {
	for int(slot) >= len(x.seats) {
		x.seats = append(x.seats, none)
	}
	seat := x.allocateSeat()
	x.seats[slot] = seat
	x.entries[seat] = entry{slot: slot, length: e.Length, seq: e.Seq, hint: e.Hint}
	if e.Hint == nil {
		return
	}
	x.entries[seat].group = uint64(e.Hint.Source)
	if len(e.Hint.Path) > 1 {
		x.entries[seat].folder = e.Hint.Path[1]
	}
	x.retriever.add(x, seat, e.Hint)
}

// allocateSeat allocates a free seat.
func (x *Index) allocateSeat() int32 {
	n := len(x.free) - 1
	if n < 0 {
		x.entries, x.scores = append(x.entries, entry{}), append(x.scores, 0)
		return int32(len(x.entries) - 1)
	}
	seat := x.free[n]
	x.free = x.free[:n]
	return seat
}

// Remove removes the document from a slot.
func (x *Index) Remove(slot int32) {
	seat := x.seats[slot]
	if h := x.entries[seat].hint; h != nil {
		x.retriever.remove(x, seat, h)
	} else {
		x.free = append(x.free, seat)
	}
	x.entries[seat] = entry{group: hiddenBit}
	x.seats[slot] = none
}

// SetHidden excludes a document from results, or includes it again.
func (x *Index) SetHidden(slot int32, hide bool) {
	e := &x.entries[x.seats[slot]]
	e.group &^= hiddenBit
	if hide {
		e.group |= hiddenBit
	}
}

// IsHidden reports whether a document is excluded from results.
func (x *Index) IsHidden(slot int32) bool { return x.entries[x.seats[slot]].group&hiddenBit != 0 }

// Top appends the k documents most related to the one in a slot, of at most longest tokens each, to dst[:0], best
// first.
func (x *Index) Top(slot int32, k int, longest int32, dst []Candidate) []Candidate {
	dst = dst[:0]
	seat := x.seats[slot]
	e := &x.entries[seat]
	if e.hint == nil || k <= 0 {
		return dst
	}
	return x.retriever.top(x, query{seat, k, longest, e.group &^ hiddenBit}, e.hint, dst)
}

// rank appends the best of the documents in x.touched to dst, best first, and clears x.scores and x.touched. own is
// the score of the querying document with itself.
func (x *Index) rank(q query, own int32, dst []Candidate) []Candidate {
	limit := int64(math.MaxInt64)
	if x.config.NearDuplicate > 0 {
		limit = int64(own) * int64(x.config.NearDuplicate) / 100
	}
	bonus, folder := int64(x.config.PathBonus), x.entries[q.seat].folder
	x.topK.reset(q.maxResults)
	scores, least := x.scores, int64(1)
	for _, s := range x.scoredSeats {
		score := int64(scores[s])
		scores[s] = 0
		// most scores are too low, which is the cheapest check
		if score < least || score > limit || !x.canMatch(q, s) {
			continue
		}
		if folder != 0 && x.entries[s].folder == folder {
			score += score * bonus / 100
		}
		x.topK.offer(int32(score), s)
		least = int64(x.topK.least) * 100 / (100 + bonus)
	}
	x.scoredSeats = x.scoredSeats[:0]
	for _, r := range x.topK.best(x) {
		dst = append(dst, Candidate{x.entries[r.seat()].slot, r.score()})
	}
	return dst
}
