package planner

import (
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// atom is the unit that is shuffled: one row as packed, or several rows of one bucket that stay together.
type atom struct {
	packerIndex int // index into Planner.packs
	bucket      int // index among the packer's buckets
	pieces      []packonline.Piece
	ends        []int // where rows end in pieces, except the last row
	// portions holds the atom's tokens by source once atomPortions has computed them.
	portions []portion
}

// rows returns the number of rows of the atom; a row has at least one piece.
func (a *atom) rows() int {
	if len(a.pieces) == 0 {
		return 0
	}
	return len(a.ends) + 1
}

func (a *atom) row(i int) []packonline.Piece {
	start, end := 0, len(a.pieces)
	if i > 0 {
		start = a.ends[i-1]
	}
	if i < len(a.ends) {
		end = a.ends[i]
	}
	return a.pieces[start:end:end]
}

func (a *atom) addRow(row []packonline.Piece) {
	if len(a.pieces) > 0 {
		a.ends = append(a.ends, len(a.pieces))
	}
	a.pieces = append(a.pieces, row...)
}

// mergeRow appends the pieces of an atom to the row that it is a part of. If the atom continues the last piece of the
// row, the two pieces become one.
func mergeRow(row, pieces []packonline.Piece) []packonline.Piece {
	if n := len(row); n > 0 && len(pieces) > 0 {
		if last, x := &row[n-1], pieces[0]; x.Doc == last.Doc && x.Start == last.Start+last.Length {
			last.Length += x.Length
			pieces = pieces[1:]
		}
	}
	return append(row, pieces...)
}

// rowBuilder takes the rows of one bucket from the packer to the queue for a step. Atoms of several rows are gathered
// before the shuffle. Atoms that are parts of a row are merged after it. At most one of open and parts is in use.
type rowBuilder struct {
	queueIndex   int                // index of the queue of its rows
	packedLength int32              // length of what the packer packs: an atom if a row has several, else a row
	openAtom     atom               // an incomplete atom
	mergedAtoms  int                // atoms in merged
	openRow      []packonline.Piece // the row under construction
	startArrived int64              // documents that had arrived at the first row of open or the first atom of merged
	startPacked  int64              // of these, documents of the packer
}

// packerState is a packer and the lines of its rows, one per bucket.
type packerState struct {
	config      packonline.Config
	packer      packonline.Packer
	rowBuilders []rowBuilder
	// An atom has atomRows rows, and a row rowAtoms atoms; one of them is 1.
	atomRows, rowAtoms int
	joinsRows          bool // the packer decides which rows form an atom
	lossOnce           bool // the loss of a repeated token counts once
}

// addPacker adds a packer with the given configuration, whose buckets are a subset of the run's.
func (p *Planner) addPacker(c packonline.Config) error {
	c.Seed = p.config.Seed
	packer, err := packonline.New(c)
	if err != nil {
		return fmt.Errorf("make packer: %w", err)
	}
	k := packerState{config: c, packer: packer, atomRows: int(max(c.Atom, 1)), rowAtoms: int(1 / min(c.Atom, 1)),
		joinsRows: packonline.HasJoinedRows(c.Method),
		lossOnce:  c.Canonical().RepeatLoss == packonline.LossOnce}
	for i, l := range c.Buckets {
		queue := slices.Index(p.rowLengths.lengths, l)
		if queue < 0 {
			return fmt.Errorf("make packer: rows of %d tokens are in no bucket of the run: %v", l, p.rowLengths.lengths)
		}
		k.rowBuilders = append(k.rowBuilders, rowBuilder{queueIndex: queue, packedLength: int32(float64(l) * min(c.Atom, 1)),
			openAtom: atom{packerIndex: len(p.packers), bucket: i}})
	}
	p.packers, p.lossOnce = append(p.packers, k), p.lossOnce || k.lossOnce
	return nil
}

// shuffleRows adds the rows just packed to atoms, and submits complete atoms to the shuffle window.
func (p *Planner) shuffleRows(k *packerState) {
	for i := range p.rows.Len() {
		length, pieces, ages := p.rows.Row(i)
		for _, age := range ages {
			p.counts.AgeMax = max(p.counts.AgeMax, int64(age))
		}
		bucket := slices.IndexFunc(k.rowBuilders, func(l rowBuilder) bool { return l.packedLength == length })
		l := &k.rowBuilders[bucket]
		p.recordStart(k, l)
		placed := p.fork.usedTokens.mapPieces(pieces)
		if k.lossOnce {
			placed = markRepeated(placed, repeatedTokens(&p.rows, i))
		}
		l.openAtom.addRow(placed)
		complete := l.openAtom.rows() == k.atomRows
		if k.joinsRows {
			complete = i+1 == p.rows.Len() || !p.rows.IsJoined(i+1)
		}
		if complete {
			p.submitAtom(l)
		}
	}
}

// repeatedTokens returns how many tokens at the start of the just packed row i repeat the end of the row before it.
// Windows of one document are adjacent rows, and each is a row of one piece.
func repeatedTokens(rows *packonline.Rows, i int) int32 {
	if i == 0 {
		return 0
	}
	_, before, _ := rows.Row(i - 1)
	_, now, _ := rows.Row(i)
	last, x := before[len(before)-1], now[0]
	if last.Doc != x.Doc {
		return 0
	}
	return last.Start + last.Length - x.Start
}

// submitAtom adds the open atom to the window, even if rows of it are missing.
func (p *Planner) submitAtom(l *rowBuilder) {
	if l.openAtom.rows() == 0 {
		return
	}
	a := l.openAtom
	l.openAtom = atom{packerIndex: a.packerIndex, bucket: a.bucket}
	p.addToWindow(a)
}

// makeRows makes rows of an atom that has left the window.
func (p *Planner) makeRows(a atom) {
	p.recordLeaving(&a)
	l, k := p.packers.rowBuilderOf(&a)
	if k.rowAtoms == 1 {
		for i := range a.rows() {
			p.enqueueRow(l, a.row(i))
		}
		return
	}
	p.recordStart(k, l)
	l.openRow = mergeRow(l.openRow, a.pieces)
	l.mergedAtoms++
	if l.mergedAtoms == k.rowAtoms {
		p.completeRow(l)
	}
}

// completeRow ends the row under construction, even if atoms of it are missing.
func (p *Planner) completeRow(l *rowBuilder) {
	if l.mergedAtoms == 0 {
		return
	}
	row := l.openRow
	l.openRow, l.mergedAtoms = nil, 0
	p.enqueueRow(l, row)
}

// recordStart records when an atom or a row was begun.
func (p *Planner) recordStart(k *packerState, l *rowBuilder) {
	if !l.isOpen() {
		l.startArrived, l.startPacked = p.counts.Arrived, k.packer.Counts().Documents
	}
}

// isOverdue reports whether one more document would make the atom or row under construction wait too long. Two bounds
// apply: Steps.MaxWait, which counts all documents, and the part of Packing.MaxAge for atoms, which counts documents
// of its packer.
func (p *Planner) isOverdue(k *packerState, l *rowBuilder) bool {
	if !l.isOpen() {
		return false
	}
	most, bounded := k.config.AtomWait()
	return p.queues.maxWait > 0 && p.counts.Arrived-l.startArrived >= p.queues.maxWait || bounded &&
		k.packer.Counts().Documents-l.startPacked >= int64(most)
}

// isOpen reports whether an atom or a row is under construction.
func (l *rowBuilder) isOpen() bool { return l.openAtom.rows() > 0 || l.mergedAtoms > 0 }

// bufferedRows returns the number of rows in the line: the rows of an incomplete atom, or one incomplete row.
func (l *rowBuilder) bufferedRows() int { return l.openAtom.rows() + min(l.mergedAtoms, 1) }

// visitPieces visits all pieces of the line outside the window.
func (l *rowBuilder) visitPieces(f func([]packonline.Piece)) {
	f(l.openAtom.pieces)
	f(l.openRow)
}

// checkRow rejects pieces that no packer can have put into length tokens.
func checkRow(r *codec.Cursor, pieces []packonline.Piece, length int64) {
	if n := plan.RowTokens(pieces); r.Err == nil && (len(pieces) == 0 || n > length) {
		r.Fail(fmt.Errorf("a row of %d tokens with %d pieces of %d tokens is impossible", length, len(pieces), n))
	}
}
