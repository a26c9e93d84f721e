package packonline

// Rows of several lengths, in units of the shortest one, U. A row of length L has L/U - 1 units more than a row must
// have. A piece of length n needs ceil(n/U) - 1 of them; what it has beyond them is its rest, 1 to U tokens. A full row
// is tight when its pieces need all its units, which is when their rests sum up to one unit. One that is not could have
// had its pieces in shorter rows.
//
// Tight rows make the most rows, hence the fewest documents a row: the rests in a full row sum up to one unit or more,
// so there are at most as many full rows as the rests of all pieces hold units. Only tight rows reach that bound
// (TestBucketRowsHaveABound).
//
// With one length every full row is tight. With lengths that are not whole units the search is the same, but the bound
// is out of reach.

// bases bounds the pairs of unit counts that addTight tries.
const bases = 16

// tight emits a tight row around the oldest piece of length n, with one other piece if that can be, else with two, and
// reports whether there is one.
func (p *bucket) tight(n int32, out *Rows) bool {
	if p.alone(n) {
		return false
	}
	p.stock.hide(n)
	p.stock.spend(moveCost)
	length, other := p.findTight(n)
	p.stock.show(n)
	if length == 0 {
		p.stock.spend(moveCost)
		return false
	}
	p.stock.spend(-moveCost) // of taking it
	p.take(n)
	p.take(length - n - other)
	if other > 0 {
		p.take(other)
	}
	p.emit(length, out)
	return true
}

// findTight returns the length of a tight row around a piece of length n, which is hidden, and that of the shorter one
// of two other pieces, 0 with only one. The row's length is 0 where there is none.
func (p *bucket) findTight(n int32) (length, other int32) {
	longer := p.lengths[bucketFor(p.lengths, n):]
	for _, l := range longer {
		if p.stock.has(l - n) {
			return l, 0
		}
	}
	for _, l := range longer {
		if p.near(l-n) && !p.stock.broke() {
			if other := p.twoTight(l - n); other != none {
				return l, other
			}
		}
	}
	return 0, 0
}

// near reports whether few pieces may well fill so much room. Between rows of several lengths that depends on the
// pieces that need long rows, not on the mean.
func (p *bucket) near(room int32) bool {
	return room <= closely*p.stock.mean() || len(p.lengths) > 1 && room >= p.lengths[0]
}

func (p *bucket) addOne(room int32) bool {
	if !p.stock.has(room) {
		return false
	}
	p.take(room)
	return true
}

func (p *bucket) addTwo(room, least, most int32) bool {
	n := p.stock.two(room, least, most)
	if n == none {
		return false
	}
	p.take(room - n)
	p.take(n)
	return true
}

// twoTight finds two pieces that fill room and need all units of it: the rest of the shorter one, whose length it
// returns, is below that of the room. The rests are to be alike, from half that of the room down to an eighth: pieces
// with a small one are what completes others alone.
func (p *bucket) twoTight(room int32) int32 {
	unit := p.lengths[0]
	units, rest := room/unit, room%unit
	edge := rest / 8
	if units == 0 {
		return p.stock.two(room, edge+1, room/2)
	}
	for k := range min(units/2+1, bases) {
		if p.stock.broke() {
			return none
		}
		base := k * unit
		if n := p.stock.two(room, base+rest/2+1, base+rest-edge-1); n != none {
			return n
		}
		if n := p.stock.two(room, base+edge+1, base+rest/2); n != none {
			return n
		}
	}
	return none
}

// alike is how many of the oldest pieces are looked through for one that lacks little of a unit too.
const alike = 256

// addAlike completes a piece of length n that lacks little of whole units, for which no tight row was found, with
// another such piece and a third one, and returns the length of the row, 0 if it can not. A unit of that row is lost,
// but for two of the pieces that are hardest to place, and the third one has the more common rest.
func (p *bucket) addAlike(n int32) int32 {
	unit := p.lengths[0]
	lacksLittle := func(n int32) bool { return unit-1-(n-1)%unit < unit/16 }
	if len(p.lengths) == 1 || !lacksLittle(n) {
		return 0
	}
	longer := p.lengths[bucketFor(p.lengths, n):]
	i := p.stock.ages.first
	for k := 0; k < alike && i != none && !p.stock.broke(); k++ {
		p.stock.spend(1)
		m := p.stock.items[i].length
		if lacksLittle(m) {
			for _, l := range longer {
				if third := l - n - m; third != m && p.stock.has(third) {
					p.take(m)
					p.take(third)
					return l
				}
			}
		}
		i = p.stock.newer(&p.stock.ages, i)
	}
	return 0
}
