package packonline

import "math"

// Parameters for filling a row of splice exactly.
const (
	tailPart          = 8   // the room to be filled exactly is at most 1/tail of a row, or a mean piece if that is more
	maxCandidates     = 256 // maximum related pieces to choose from
	tripleCandidates  = 96  // of these, how many are combined in triples
	nearestCandidates = 48  // of these, how many are used if no combination fills the room
	mixedCandidates   = 24  // of these, how many are tried with pieces of matching lengths
	minRoomLeft       = 16  // minimum tokens left by a related piece, because hardly any pieces fill less
)

// exactRoom returns the room at the end of a row of length l that is to be filled exactly by related pieces: at least
// means mean pieces.
func (p *splice) exactRoom(l, means int32) int32 { return max(l/tailPart, means*p.pool.meanLength()) }

// queryRelated finds the pieces that are most related to a piece of the row under construction and have at most longest
// tokens.
func (p *splice) queryRelated(piece int32, most int, longest int32) {
	p.candidates = p.index.Top(piece, most, longest, p.candidates)
	if len(p.candidates) > 0 {
		p.queries++
	}
}

// takePiece takes a piece into the row under construction and hides it from the index.
func (p *splice) takePiece(i int32) {
	p.pool.takeItem(i)
	p.index.SetHidden(i, true)
	p.row = append(p.row, i)
}

// returnPieces puts all but the first keep pieces of the row under construction back into the stock and the index.
func (p *splice) returnPieces(keep int) {
	for _, i := range p.row[keep:] {
		p.index.SetHidden(i, false)
	}
	p.putBack(keep)
}

// emitRelated emits a full row of pieces related to a root and to one another, and reports whether such a row exists.
// It is the shortest row that related pieces fill exactly, else one that other pieces complete.
func (p *splice) emitRelated(root int32, out *Rows) bool {
	before := p.queries
	p.takePiece(root)
	used := p.pool.items[root].length
	for asking := 0; asking < len(p.row); asking++ {
		p.queryRelated(p.row[asking], p.queryLimit(used, 1), p.longest-used)
		if l := p.fillWithRelated(used); l > 0 {
			p.emitOrdered(l, out)
			return true
		}
		used = p.takeRelated(used)
	}
	if l := p.completeByLength(used, 1); l > 0 {
		p.queryBudget -= budgetUnit * max(0, p.queries-before-int64(len(p.row)))
		p.emitOrdered(l, out)
		return true
	}
	p.queryBudget -= budgetUnit * (p.queries - before)
	p.returnPieces(0)
	return false
}

// emitOrdered emits the row under construction.
func (p *splice) emitOrdered(length int32, out *Rows) {
	p.orderRow()
	p.emit(length, out)
}

// queryLimit returns the number of related pieces to query: few, until a row is nearly full.
func (p *splice) queryLimit(used, means int32) int {
	for _, l := range p.lengths {
		if l > used && l-used <= p.exactRoom(l, means) {
			return maxCandidates
		}
	}
	return p.config.Splice.K
}

// takeRelated takes the k best answers that fit, and returns the new number of tokens of the row. It takes no short
// pieces while they are scarce.
func (p *splice) takeRelated(used int32) int32 {
	taken, longerThan := 0, int32(0)
	if len(p.lengths) == 1 && p.balance.isShortScarce() {
		longerThan = p.balance.maxLengths[0]
	}
	for _, c := range p.candidates {
		n := p.pool.items[c.Slot].length
		if room := p.longest - used - n; taken < p.config.Splice.K && room >= minRoomLeft && n > longerThan {
			p.takePiece(c.Slot)
			used += n
			taken++
		}
	}
	return used
}

// fillWithRelated fills the shortest row that answers can fill, and returns its length, or 0 if none.
func (p *splice) fillWithRelated(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		if room < 0 || room > p.exactRoom(l, 1) {
			continue
		}
		if room == 0 && len(p.row) > 1 {
			p.endCounts.related++
			return l
		}
		if best := p.fill.chooseExact(p.candidates, p.pool, room); len(best) > 0 {
			for _, c := range best {
				p.takePiece(p.candidates[c].Slot)
			}
			p.endCounts.related++
			return l
		}
	}
	return 0
}

// completeByLength fills a row with pieces of matching lengths. If necessary it removes related pieces from the end of
// the row, but keeps at least least of them. It returns the length of the row, or 0 if none.
func (p *splice) completeByLength(used int32, least int) int32 {
	for len(p.row) >= least {
		if l := p.fillWithOthers(used); l > 0 {
			return l
		}
		used -= p.pool.items[p.row[len(p.row)-1]].length
		p.returnPieces(len(p.row) - 1)
	}
	return 0
}

// fillWithOthers fills a row with one of the answers and one or two other pieces, else with up to three others. It
// returns the length of the row, or 0 if none.
func (p *splice) fillWithOthers(used int32) int32 {
	for _, l := range p.lengths {
		room := l - used
		switch {
		case room < 0:
			continue
		case room == 0:
			p.endCounts.related++
			return l
		case room <= p.exactRoom(l, 1) && p.fillMixed(room), p.fillByLength(room):
			return l
		}
	}
	return 0
}

// fillMixed fills room with one of the answers and one or two other pieces, and reports whether it did.
func (p *splice) fillMixed(room int32) bool {
	for _, c := range p.candidates[:min(len(p.candidates), mixedCandidates)] {
		n := p.pool.items[c.Slot].length
		if n >= room || p.index.IsHidden(c.Slot) {
			continue
		}
		p.takePiece(c.Slot)
		if p.addOne(room-n) || p.addTwo(room-n, 1, (room-n)/2) {
			p.endCounts.mixed++
			return true
		}
		p.returnPieces(len(p.row) - 1)
	}
	return false
}

// fillByLength fills room with up to three pieces of matching lengths, and reports whether it did.
func (p *splice) fillByLength(room int32) bool {
	before := len(p.row)
	if !p.hasLittleRoom(room) || !p.addFew(room) {
		return false
	}
	if before > 1 {
		p.endCounts.byLength++
	} else {
		p.endCounts.unrelated++
	}
	return true
}

// emitTrimmed emits a row of the paper's algorithm: related pieces until it is full, in the configured order. Tokens
// beyond the row are dropped.
func (p *splice) emitTrimmed(root int32, out *Rows) {
	p.takePiece(root)
	used := p.pool.items[root].length
	for asking := 0; used < p.longest && p.pool.pieces > 0; {
		if asking == len(p.row) { // nothing is related to any of them: another root
			p.takePiece(p.pool.byAge.first)
			used += p.pool.items[p.row[asking]].length
			continue
		}
		p.queryRelated(p.row[asking], p.config.Splice.K, math.MaxInt32)
		asking++
		for _, c := range p.candidates {
			if used < p.longest {
				p.takePiece(c.Slot)
				used += p.pool.items[c.Slot].length
			}
		}
	}
	p.orderRow()
	room := p.longest
	for _, i := range p.row {
		w := p.pool.items[i].bufferedPiece
		n := min(room, w.length)
		if n > 0 {
			out.add(Piece{w.doc, w.start, n}, p.age(w))
			room -= n
		}
		p.counts.Dropped += int64(w.length - n)
		p.removeItem(i)
	}
	p.row = p.row[:0]
	p.endCounts.trimmed++
	p.closeRow(p.longest, p.longest-room, out)
}
