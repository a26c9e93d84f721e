package packonline

import (
	"encoding/binary"
	"fmt"
	"math"
)

// seamless is Seamless Packing over a bounded pool.
//
// Stage 1 is applied to each document at its arrival (Eq. 1-3). If overlaps of at most Overlap*L tokens per window
// can stretch the document to whole rows, it becomes overlapping windows, and the repeated tokens are counted. Any
// other document becomes full rows and a remainder for stage 2.
//
// Stage 2 (Algorithm 1) is first-fit-decreasing into bins of L + Extra tokens. A bin of L tokens or more is a row.
// Tokens beyond L are dropped from its end, which holds the shortest pieces, and counted. Under-full bins, those of
// fewer than L tokens, are concatenated to one run, which is cut every L tokens. The cuts split documents. No row is
// padded.
//
// With a pool that holds all pieces, this is done once, in the flush. That is the paper's offline method, except that
// the last row is padded while the paper's program drops the end of the run. With a smaller pool, a pass packs all of
// it and emits the bins that are rows. The pieces of under-full bins return to the pool, except those that must not
// wait, as in windowed. Bins with a piece that is nearly too old are appended to the run and, if that frees too
// little, so are the fullest bins. The run is extended by later such bins. If one of its own pieces is nearly too
// old, further bins are appended until that piece is emitted. The run is padded only if no such bins exist.
//
// Invariants 3, 4 and 5 of windowed hold if the pieces of the run count as buffered.
type seamless struct {
	binPacker
	overlap int64           // Overlap in units of 1/overlapUnit
	run     []bufferedPiece // the uncut end of the run: fewer than L tokens
	used    int32           // tokens in run
	oldest  bufferedPiece   // oldest piece of run
	detail  seamlessDetail
}

// seamlessDetail has the counts that the paper reports for its two stages.
type seamlessDetail struct {
	windowDocuments int64 // documents covered by windows
	shortTokens     int64 // tokens passed to stage 2
	runRows         int64 // rows cut from the run
}

// overlapUnit makes Eq. 1 exact: r_max is a decimal number of the configuration, for example 0.3, which float64 and
// products with it do not represent exactly. So it is first rounded to a multiple of 10^-9, with one multiplication
// that is equal on every machine. The rest is integer arithmetic.
const overlapUnit = 1_000_000_000

func newSeamless(c Config) Packer {
	return &seamless{binPacker: newBinPacker(c, true), overlap: int64(math.Round(c.Overlap * overlapUnit))}
}

func (p *seamless) Add(d Doc, out *Rows) {
	p.countDocument(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	if n := p.stretchableRows(d.Length); n > 0 {
		p.emitWindows(d, n, out)
	} else {
		start := p.emitFullRows(d, out)
		p.detail.shortTokens += int64(d.Length - start)
		p.bufferRemainder(d, start)
	}
	switch {
	case len(p.pool)+len(p.run) > p.config.Pool:
		p.packPool(p.targetPieces(), out)
	case len(p.pool) > 0 && p.isDue(p.pool[0], 0), len(p.run) > 0 && p.isDue(p.oldest, 0):
		p.packPool(p.config.Pool, out)
	}
}

func (p *seamless) Flush(out *Rows) {
	p.packPool(0, out)
}

// stretchableRows returns n if a document of n full rows and a rest is to be covered by n+1 windows, else 0. A document
// that fills its rows exactly needs no windows: section 3.4 treats it as n-1 rows and a rest of L, for which Eq. 3
// gives no overlap.
func (p *seamless) stretchableRows(length int32) int64 {
	l := int64(p.longest)
	n := int64(length) / l
	most := (n*l*p.overlap + overlapUnit - 1) / overlapUnit // Eq. 1; n*l < 2^31 and overlap < 2^30
	if n == 0 || int64(length)%l == 0 || int64(length)+most < (n+1)*l {
		return 0 // Eq. 2
	}
	return n
}

// emitWindows emits the n+1 windows of a document. Each window begins Eq. 3's overlap before the end of the previous
// one. It begins no earlier than the later windows permit, because the last one must end at the document's end. Rounded
// up, n overlaps may have up to n-1 tokens more than are to be repeated.
func (p *seamless) emitWindows(d Doc, n int64, out *Rows) {
	l, length := int64(p.longest), int64(d.Length)
	overlap := ((n+1)*l - length + n - 1) / n // Eq. 3
	for k := range n + 1 {
		start := max(k*(l-overlap), length-(n+1-k)*l)
		out.add(Piece{d.Seq, int32(start), p.longest}, 0)
		p.closeRow(p.longest, p.longest, out)
	}
	p.counts.Repeated += (n+1)*l - length
	p.detail.windowDocuments++
}

// Detail returns the counts that the paper reports for its two stages.
func (p *seamless) Detail() map[string]int64 {
	return map[string]int64{
		"window_documents":       p.detail.windowDocuments,
		"short_tokens":           p.detail.shortTokens,
		"concatenated_sequences": p.detail.runRows,
	}
}

func (p *seamless) Pending() Pending {
	oldest := firstPiece(p.pool)
	if len(p.run) > 0 && (oldest == nil || p.oldest.arrived < oldest.arrived) {
		oldest = &p.oldest
	}
	return p.pending(len(p.pool)+len(p.run), oldest)
}

func (p *seamless) Each(f func(Piece)) { eachPiece(f, p.pool, p.run) }

// AppendState appends the state that is common to all methods, followed by the detail.
func (p *seamless) AppendState(b []byte) []byte {
	b = p.appendState(b, p.pool, p.run)
	for _, n := range []int64{p.detail.windowDocuments, p.detail.shortTokens, p.detail.runRows} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func (p *seamless) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 2)
	if err != nil {
		return nil, err
	}
	pool, run := lists[0], lists[1]
	if err := p.checkPool(pool, len(pool)+len(run)); err != nil {
		return nil, err
	}
	if err := checkOrder(byArrival(pool, run)); err != nil {
		return nil, err
	}
	restored := seamless{binPacker: binPacker{packerBase: t, pool: pool, bins: p.bins}, overlap: p.overlap}
	for i, w := range run {
		if w.length >= p.longest-restored.used {
			return nil, fmt.Errorf("restore packer: %d tokens or more wait for a row of %d",
				int64(restored.used)+int64(w.length), p.longest)
		}
		if i > 0 && w.start%p.longest != 0 {
			return nil, fmt.Errorf("restore packer: document %d starts at %d in the middle of a row", w.doc, w.start)
		}
		restored.extendRun(w)
	}
	r := reader{b: rest}
	restored.detail = seamlessDetail{
		windowDocuments: r.number("documents under windows", t.counts.Documents),
		shortTokens:     r.number("short tokens", t.counts.Tokens),
		runRows:         r.number("rows of the run", t.counts.Rows),
	}
	if r.err != nil {
		return nil, fmt.Errorf("restore packer: %w", r.err)
	}
	*p = restored
	return r.b, nil
}
