package packonline

// Rows of several lengths, in units of the shortest one, U. A row of length L has L/U - 1 units more than a row must have. A piece of
// length n needs ceil(n/U) - 1 of them; what it has beyond them is its rest, 1 to U tokens. A full row is tight when its pieces need
// all its units, which is when their rests sum up to one unit. One that is not could have had its pieces in shorter rows.
//
// Tight rows make the most rows, hence the fewest documents a row: full rows hold the tokens of their pieces, so there are at most as
// many as the rests of all pieces hold units. That is the lower bound on documents / rows, which only tight rows reach.
//
// With one length all rows that are full are tight.

// triples is how many pieces are tried as the first of three. Few, for they are the ones that complete others alone.
const triples = 4

// bases bounds the pairs of unit counts that addTight tries.
const bases = 16

// tight emits a tight row around the oldest piece of length n, with one other piece if that can be, else two, else three. It reports
// whether there is one.
func (p *bucket) tight(n int32, out *Rows) bool {
	p.take(n)
	longer := p.lengths[bucketFor(p.lengths, n):]
	for _, l := range longer {
		if p.addOne(l - n) {
			p.emit(l, out)
			return true
		}
	}
	for _, l := range longer {
		if p.near(l-n) && p.addTight(l-n) {
			p.emit(l, out)
			return true
		}
	}
	for _, l := range longer {
		if p.near(l-n) && p.addTightThree(l-n) {
			p.emit(l, out)
			return true
		}
	}
	p.putBack(0)
	return false
}

// near reports whether few pieces may well fill so much room. Between rows of several lengths that depends on the pieces that need
// long rows, not on the mean.
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

// addTight fills room with two pieces that need all units of it: the rest of the shorter one is below that of the room. The rests
// are to be alike, from half that of the room down to an eighth: pieces with a small one are what completes others alone.
func (p *bucket) addTight(room int32) bool {
	unit := p.lengths[0]
	units, rest := room/unit, room%unit
	edge := rest / 8
	if units == 0 {
		return p.addTwo(room, edge+1, room/2)
	}
	for k := range min(units/2+1, bases) {
		base := k * unit
		if p.addTwo(room, base+rest/2+1, base+rest-edge-1) || p.addTwo(room, base+edge+1, base+rest/2) {
			return true
		}
	}
	return false
}

// addTightThree fills room with three pieces that need all units of it. The first one is long, but its rest leaves a quarter of the
// room's to the others.
func (p *bucket) addTightThree(room int32) bool {
	unit := p.lengths[0]
	units, rest := room/unit, room%unit
	at := len(p.row)
	n := room
	if units == 0 {
		n = room / 2
	}
	for range triples {
		n = p.stock.atMost(n)
		if n == none || n < unit && units > 0 {
			return false
		}
		if over := n%unit - rest*3/4; over >= 0 && units > 0 {
			n -= over + 1
			continue
		}
		p.take(n)
		if p.addTight(room - n) {
			return true
		}
		p.putBack(at)
		n--
	}
	return false
}
