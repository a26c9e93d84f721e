package packonline

// Rows of several lengths are measured in units of the shortest length, U. A row of length L has L/U - 1 extra units
// beyond the first. A piece of length n needs ceil(n/U) - 1 extra units. Its remaining 1 to U tokens are its rest. A
// full row is tight if its pieces need all its extra units, which is equivalent to their rests adding up to one unit.
// The pieces of a row that is not tight would have fitted into shorter rows.
//
// Tight rows give the most rows, hence the fewest documents per row. The rests in a full row add up to at least one
// unit. So the number of full rows is at most the sum of the rests of all pieces in units. Only tight rows reach that
// bound (TestBucket_WholeUnitRowsAreBounded).
//
// With one length every full row is tight. With lengths that are not multiples of U the search is the same, but the
// bound is not reached.

// maxUnitPairs is the maximum number of pairs of unit counts that findTightPair tries.
const maxUnitPairs = 16

// emitTight emits a tight row around the oldest piece of length n, with one other piece if possible, else with two. It
// reports whether such a row exists.
func (p *bucket) emitTight(n int32, out *Rows) bool {
	if p.hasNoPartner(n) {
		return false
	}
	p.pool.hideLength(n)
	p.pool.spendCredit(moveCost)
	length, other := p.findTight(n)
	p.pool.showLength(n)
	if length == 0 {
		p.pool.spendCredit(moveCost)
		return false
	}
	p.pool.spendCredit(-moveCost) // refund: take charges it again
	p.addOldest(n)
	p.addOldest(length - n - other)
	if other > 0 {
		p.addOldest(other)
	}
	p.emit(length, out)
	return true
}

// findTight returns the length of a tight row around a piece of length n, which must be hidden. other is the length
// of the shorter one of two other pieces, or 0 with only one. The row's length is 0 if no such row exists.
func (p *bucket) findTight(n int32) (length, other int32) {
	longer := p.lengths[bucketFor(p.lengths, n):]
	for _, l := range longer {
		if p.pool.hasLength(l - n) {
			return l, 0
		}
	}
	if p.documentsLeft(1) < 2 {
		return 0, 0
	}
	for _, l := range longer {
		if p.hasLittleRoom(l-n) && !p.pool.isOutOfCredit() {
			if other := p.findTightPair(l - n); other != none {
				return l, other
			}
		}
	}
	return 0, 0
}

// hasLittleRoom reports whether few pieces are likely to fill the given room. For rows of several lengths that depends
// on the pieces that need long rows, not on the mean length.
func (p *bucket) hasLittleRoom(room int32) bool {
	return room <= muchRoom*p.pool.meanLength() || len(p.lengths) > 1 && room >= p.lengths[0]
}

func (p *bucket) addOne(room int32) bool {
	if p.documentsLeft(len(p.row)) < 1 || !p.pool.hasLength(room) {
		return false
	}
	p.addOldest(room)
	return true
}

func (p *bucket) addTwo(room, least, most int32) bool {
	if p.documentsLeft(len(p.row)) < 2 {
		return false
	}
	n := p.pool.findPair(room, least, most)
	if n == none {
		return false
	}
	p.addOldest(room - n)
	p.addOldest(n)
	return true
}

// findTightPair finds two pieces that fill room and need all extra units of it. It returns the length of the shorter
// one, whose rest is below that of the room. It prefers similar rests, from half of the room's rest down to an eighth,
// because pieces with a small rest complete others alone.
func (p *bucket) findTightPair(room int32) int32 {
	unit := p.lengths[0]
	units, rest := room/unit, room%unit
	edge := rest / 8
	if units == 0 {
		return p.pool.findPair(room, edge+1, room/2)
	}
	for k := range min(units/2+1, maxUnitPairs) {
		if p.pool.isOutOfCredit() {
			return none
		}
		base := k * unit
		if n := p.pool.findPair(room, base+rest/2+1, base+rest-edge-1); n != none {
			return n
		}
		if n := p.pool.findPair(room, base+edge+1, base+rest/2); n != none {
			return n
		}
	}
	return none
}

// maxSimilarTries is the maximum number of oldest pieces that are searched for one that is also slightly below whole
// units.
const maxSimilarTries = 256

// addSimilarPair completes a piece of length n that is slightly below whole units and has no tight row, with another
// such piece and a third one. It returns the length of the row, or 0 if none is found. The row wastes a unit, but it
// uses two of the pieces that are hardest to place, and the third one has the more common rest.
func (p *bucket) addSimilarPair(n int32) int32 {
	unit := p.lengths[0]
	lacksLittle := func(n int32) bool { return unit-1-(n-1)%unit < unit/16 }
	if len(p.lengths) == 1 || !lacksLittle(n) || p.documentsLeft(len(p.row)) < 2 {
		return 0
	}
	longer := p.lengths[bucketFor(p.lengths, n):]
	i := p.pool.byAge.first
	for k := 0; k < maxSimilarTries && i != none && !p.pool.isOutOfCredit(); k++ {
		p.pool.spendCredit(1)
		m := p.pool.items[i].length
		if lacksLittle(m) {
			for _, l := range longer {
				if third := l - n - m; third != m && p.pool.hasLength(third) {
					p.addOldest(m)
					p.addOldest(third)
					return l
				}
			}
		}
		i = p.pool.newerItem(&p.pool.byAge, i)
	}
	return 0
}
