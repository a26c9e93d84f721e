package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// stateVersion is the version of AppendState's format:
//
//	version byte, then uvarints: last document, next step, the totals in the order of Counts
//	recent ids, packer, shuffle window, each in its own format; with several sources the blend (blend.appendState) in place of recent ids,
//	and as many packers as they have
//	for each bucket: rows of the atom that more belong to, each of them; atoms of the row under construction and, if there are
//	any, the row; the documents that had arrived when the first of these came, and those of them that the packer had, if there are any
//	the queues of rows that wait for a step (queues.appendState); with several sources what a fork begins with (appendHeritage)
//	which tokens of the documents that wait have no loss (losses.appendState)
//
// An atom in the window is its packer's number where there are several, its bucket's index, the number of its rows, and each of them.
const stateVersion = 1

// AppendState appends the planner's whole state: references to documents, never tokens.
func (p *Planner) AppendState(b []byte) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, p.cursor.Last())
	b = binary.AppendUvarint(b, p.next)
	for _, n := range p.counts.fields() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	if p.blend != nil {
		b = p.blend.appendState(b, p.arrivals())
	} else {
		b = p.seen.appendState(b)
	}
	for i := range p.packs {
		b = p.packs[i].packer.AppendState(b)
	}
	var previous uint64
	appendAtom := func(b []byte, a *atom) []byte {
		b = binary.AppendUvarint(b, uint64(a.rows()))
		for i := range a.rows() {
			b = appendPieces(b, a.row(i), &previous)
		}
		return b
	}
	b = p.window.AppendState(b, func(b []byte, a atom) []byte {
		if len(p.packs) > 1 {
			b = binary.AppendUvarint(b, uint64(a.pack))
		}
		return appendAtom(binary.AppendUvarint(b, uint64(a.bucket)), &a)
	})
	for l := range p.lines() {
		b = appendAtom(b, &l.open)
		b = binary.AppendUvarint(b, uint64(l.parts))
		if l.parts > 0 {
			b = appendPieces(b, l.merged, &previous)
		}
		if l.begun() {
			b = binary.AppendUvarint(b, uint64(l.since))
			b = binary.AppendUvarint(b, uint64(l.packs))
		}
	}
	b = p.queues.appendState(b, &previous)
	if p.blend != nil {
		b = p.appendHeritage(b, &previous)
	}
	return p.losses.appendState(b, p.waiting)
}

// RestoreState replaces the state of a planner of the same configuration. It accepts exactly what AppendState wrote.
func (p *Planner) RestoreState(b []byte) error {
	if len(b) == 0 || b[0] != stateVersion {
		return fmt.Errorf("restore planner: state format is not version %d", stateVersion)
	}
	r := varints{b: b[1:]}
	p.cursor = Behind(r.uvarint())
	p.next = r.uvarint()
	for _, n := range p.counts.fields() {
		*n = int64(r.uvarint())
	}
	if p.blend != nil {
		if err := p.restoreBlend(&r); err != nil {
			return fmt.Errorf("restore planner: %w", err)
		}
	} else if err := p.seen.restoreState(&r); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("restore planner: %w", r.err)
	}
	var err error
	for i := range p.packs {
		packer := p.packs[i].packer
		if r.b, err = packer.RestoreState(r.b); err != nil {
			return err
		}
		if next := packer.Next(); next > p.names.name(p.cursor.Next(), 0) {
			return fmt.Errorf("restore planner: it is at document %s, its packer before document %d", p.cursor, next)
		}
	}
	if p.blend != nil {
		p.blend.shuffled = 0
	}
	var previous uint64
	r.b, err = p.window.RestoreState(r.b, func(b []byte) (atom, []byte, error) {
		r := varints{b: b}
		pack := 0
		if len(p.packs) > 1 {
			pack = int(r.bounded(uint64(len(p.packs)) - 1))
		}
		k := &p.packs[pack]
		bucket := int(r.bounded(uint64(len(k.lines)) - 1))
		a := r.atom(&k.lines[bucket], k.atomRows, &previous)
		a.pack, a.bucket = pack, bucket
		if p.blend != nil {
			a.of = r.portions(p.blend, a.pieces)
			p.blend.shuffled += tokens(a.pieces)
		}
		if r.err == nil && a.rows() == 0 {
			r.fail(errors.New("an atom without rows waits in the window"))
		}
		return a, r.b, r.err
	})
	if err != nil {
		return err
	}
	for l := range p.lines() {
		p.restoreLine(l, &r, &previous)
	}
	p.queues.restoreState(&r, &previous, p.counts.Arrived)
	if p.blend != nil {
		p.restoreHeritage(&r, &previous)
	}
	p.losses = r.losses(p.waiting)
	if p.blend != nil && r.err == nil {
		if err := p.blend.refs.holds(p.arrivals()); err != nil {
			r.fail(err)
		} else if err := p.checkLeft(); err != nil {
			r.fail(err)
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("restore planner: %w", r.err)
	}
	return nil
}

// restoreLine reads what a line holds. It refuses a whole atom or row, which would have gone on.
func (p *Planner) restoreLine(l *line, r *varints, previous *uint64) {
	_, k := p.lineOf(&l.open)
	most := k.atomRows - 1
	if k.joins { // the atoms of such a method end with a document
		most = 0
	}
	a := r.atom(l, most, previous)
	l.open.pieces, l.open.ends = a.pieces, a.ends
	l.merged = nil
	if l.parts = int(r.bounded(uint64(k.rowAtoms) - 1)); l.parts > 0 {
		l.merged = r.pieces(previous)
		r.checkRow(l.merged, int64(l.parts)*int64(l.packed))
	}
	l.since, l.packs = 0, 0
	if l.begun() {
		l.since = int64(r.bounded(uint64(p.counts.Arrived)))
		l.packs = int64(r.bounded(uint64(k.packer.Counts().Documents)))
	}
	if r.err == nil && p.late(k, l) {
		r.fail(fmt.Errorf("a row has waited for other atoms while %d documents arrived: more than steps.max_wait or packing.max_age allow", p.counts.Arrived-l.since))
	}
}

func (c *Counts) fields() []*int64 {
	return slices.Concat([]*int64{&c.Arrived}, c.Skipped.fields(), []*int64{&c.Cut, &c.Inherited, &c.Rows, &c.Slots, &c.Tokens, &c.MaskedTokens, &c.LeftTokens, &c.AgeMax, &c.WaitMax})
}

func (r *recent) appendState(b []byte) []byte {
	n := uint64(len(r.ring))
	held := min(n, r.next)
	b = binary.AppendUvarint(b, n)
	b = binary.AppendUvarint(b, r.next)
	for k := r.next - held; k < r.next; k++ {
		b = binary.LittleEndian.AppendUint64(b, r.ring[k%n])
	}
	return b
}

func (r *recent) restoreState(in *varints) error {
	n, next := in.uvarint(), in.uvarint()
	if n != uint64(len(r.ring)) {
		return fmt.Errorf("restore recent ids: state has a window of %d documents, the configuration %d", n, len(r.ring))
	}
	held := min(n, next)
	if uint64(len(in.b))/8 < held {
		return fmt.Errorf("restore recent ids: %w", errShort)
	}
	*r = *newRecent(len(r.ring))
	r.next = next - held
	for range held {
		r.put(binary.LittleEndian.Uint64(in.b))
		in.b = in.b[8:]
	}
	return nil
}

// before is the document of the piece before: of each source where pieces name documents of several.
type before struct {
	mixed    bool
	bucket   int64 // tokens of a full row
	document []uint64
}

// of returns where the piece before of a source is noted.
func (p *before) of(source int) *uint64 {
	for len(p.document) <= source {
		p.document = append(p.document, 0)
	}
	return &p.document[source]
}

// Flags of a row's number of pieces, where the run has several sources.
const (
	rowFull  = 1 << iota // the last piece fills the row: its length is not said
	rowStart             // that piece starts elsewhere than at 0
	rowFlags = iota
)

// appendRefs writes a row as appendPieces does; where the run has several sources the number of its source stands before each piece, distances are
// those in its stream, and the last piece of a full row comes without its length: its start alone where rowStart says so.
func appendRefs(b []byte, pieces []packonline.Piece, p *before) []byte {
	if !p.mixed {
		return appendPieces(b, pieces, p.of(0))
	}
	last := len(pieces) - 1
	set := uint64(0)
	if last >= 0 && tokens(pieces) == p.bucket {
		set |= rowFull
		if pieces[last].Start > 0 {
			set |= rowStart
		}
	}
	b = binary.AppendUvarint(b, uint64(len(pieces))<<rowFlags|set)
	for i, x := range pieces {
		source := RefSource(x.Doc)
		b = binary.AppendUvarint(b, uint64(source))
		x.Doc = RefSequence(x.Doc)
		if i < last || set&rowFull == 0 {
			b = appendPiece(b, x, p.of(source))
			continue
		}
		b = appendDocument(b, x.Doc, p.of(source))
		if set&rowStart != 0 {
			b = binary.AppendUvarint(b, uint64(x.Start))
		}
	}
	return b
}

// refsOf reads what appendRefs wrote.
func (r *varints) refsOf(p *before) []packonline.Piece {
	if !p.mixed {
		return r.pieces(p.of(0))
	}
	head := r.bounded(uint64(len(r.b))<<rowFlags | rowFull | rowStart)
	n := head >> rowFlags
	if r.err == nil && (n > uint64(len(r.b)+1)/3 || head&rowStart != 0 && head&rowFull == 0 || head&rowFull != 0 && n == 0) {
		r.fail(fmt.Errorf("a row cannot begin with %d", head))
	}
	if r.err != nil || n == 0 {
		return nil
	}
	out := make([]packonline.Piece, 0, n)
	left := p.bucket
	for i := range n {
		source := int(r.bounded(mixture.MaxSources - 1))
		var x packonline.Piece
		if i < n-1 || head&rowFull == 0 {
			x = r.piece(p.of(source))
		} else {
			x = r.lastPiece(p.of(source), left, head&rowStart != 0)
		}
		if r.err == nil && (x.Doc == 0 || x.Doc > maxSequence) {
			r.fail(fmt.Errorf("document %d of source %d is impossible", x.Doc, source))
		}
		if r.err != nil {
			return nil
		}
		left -= int64(x.Length)
		x.Doc = Ref(source, x.Doc)
		out = append(out, x)
	}
	return out
}

// lastPiece reads the last piece of a full row, of which so many tokens are left.
func (r *varints) lastPiece(previous *uint64, left int64, starts bool) packonline.Piece {
	x := packonline.Piece{Doc: r.document(previous), Length: int32(left)}
	if starts {
		x.Start = int32(r.bounded(math.MaxInt32))
	}
	if r.err == nil && (left < 1 || starts && x.Start == 0 || int64(x.Start)+left > math.MaxInt32) {
		r.fail(fmt.Errorf("piece [%d, +%d) of document %d is impossible at the end of a row", x.Start, left, x.Doc))
	}
	return x
}

// appendPieces writes a row: the number of pieces, then for each the document's distance from the previous piece's (zigzag), and its
// length with a flag for "starts elsewhere than at 0"; the start follows then. previous goes on from row to row.
func appendPieces(b []byte, pieces []packonline.Piece, previous *uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(pieces)))
	for _, x := range pieces {
		b = appendPiece(b, x, previous)
	}
	return b
}

// appendDocument writes the distance of a document from the one before (zigzag).
func appendDocument(b []byte, document uint64, previous *uint64) []byte {
	b = binary.AppendVarint(b, int64(document-*previous))
	*previous = document
	return b
}

func appendPiece(b []byte, x packonline.Piece, previous *uint64) []byte {
	b = appendDocument(b, x.Doc, previous)
	if x.Start == 0 {
		return binary.AppendUvarint(b, uint64(x.Length)<<1)
	}
	b = binary.AppendUvarint(b, uint64(x.Length)<<1|1)
	return binary.AppendUvarint(b, uint64(x.Start))
}

var errShort = errors.New("cut short")

// varints decodes numbers; after the first error it returns zeros.
type varints struct {
	b   []byte
	err error
}

func (r *varints) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *varints) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// varint reads a number that may be negative, as zigzag varint.
func (r *varints) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *varints) bytes(n int) []byte {
	if n > len(r.b) {
		r.fail(errShort)
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// bounded reads a number of at most limit.
func (r *varints) bounded(limit uint64) uint64 {
	v := r.uvarint()
	if v > limit {
		r.fail(fmt.Errorf("%d where at most %d can be", v, limit))
		return 0
	}
	return v
}

// atom reads an atom of a line, of at most so many rows.
func (r *varints) atom(l *line, most int, previous *uint64) (a atom) {
	for range r.bounded(uint64(most)) {
		row := r.pieces(previous)
		r.checkRow(row, int64(l.packed))
		a.add(row)
	}
	return a
}

// pieces reads what appendPieces wrote.
func (r *varints) pieces(previous *uint64) []packonline.Piece {
	n := r.bounded(uint64(len(r.b)) / 2) // a piece takes two bytes or more
	if n == 0 {
		return nil
	}
	out := make([]packonline.Piece, 0, n)
	for range n {
		x := r.piece(previous)
		if r.err != nil {
			return nil
		}
		out = append(out, x)
	}
	return out
}

// document reads what appendDocument wrote.
func (r *varints) document(previous *uint64) uint64 {
	d, k := binary.Varint(r.b)
	if k <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[k:]
	*previous += uint64(d)
	return *previous
}

func (r *varints) piece(previous *uint64) (x packonline.Piece) {
	x.Doc = r.document(previous)
	l := r.bounded(math.MaxInt32<<1 | 1)
	x.Length = int32(l >> 1)
	if l&1 == 1 {
		x.Start = int32(r.bounded(math.MaxInt32))
	}
	if r.err == nil && (x.Length < 1 || int64(x.Start)+int64(x.Length) > math.MaxInt32) {
		r.fail(fmt.Errorf("piece [%d, +%d) of document %d is impossible", x.Start, x.Length, x.Doc))
	}
	return x
}

// portions returns how many tokens of the pieces are of each source. It refuses pieces of documents that do not wait.
func (r *varints) portions(b *blend, pieces []packonline.Piece) []portion {
	for _, x := range pieces {
		if !b.refs.has(b.names.position(x.Doc)) {
			r.fail(fmt.Errorf("an atom with tokens of arrival %d waits, which is not named", b.names.position(x.Doc)))
			return nil
		}
	}
	return b.portions(pieces)
}
