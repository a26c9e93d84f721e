package similarity

import (
	"math/bits"
	"slices"
)

// dense ranks by the cosine between vectors supplied with the documents. First it compares the signs of the documents
// that fit the query, 64 numbers at a time. Then it compares the nearest by signs exactly. Both are sums of integers,
// so kernels may add in any order.
type dense struct {
	dimension    int
	stride       int      // length of a vector: a multiple of vectorUnit, padded with zeros
	words        int      // length of signs: a multiple of signsUnit, padded with zeros
	vectors      []int8   // by seat
	signs        []uint64 // by seat
	seats        []int32  // in use
	seatIndex    []int32  // by seat: index in seats; none for documents without a vector, or with a vector of zeros
	fittingSeats []int32  // seats that fit the query
	distance     []int32  // of these: number of different signs
	count        []int32  // by distance: number of documents
}

// Number of elements that kernels process at a time.
const (
	vectorUnit = 32
	signsUnit  = 2
)

// minCompared is the minimum number of documents that are compared exactly, if that many fit.
const minCompared = 128

func newDense(dimension int) *dense {
	up := func(n, unit int) int { return (n + unit - 1) / unit * unit }
	return &dense{
		dimension: dimension,
		stride:    up(dimension, vectorUnit),
		words:     up(dimension, 64*signsUnit) / 64,
		count:     make([]int32, dimension+1),
	}
}

func (d *dense) add(_ *Index, seat int32, h *Hint) {
	for int(seat) >= len(d.seatIndex) {
		d.seatIndex = append(d.seatIndex, none)
		d.vectors = append(d.vectors, make([]int8, d.stride)...)
		d.signs = append(d.signs, make([]uint64, d.words)...)
	}
	if !slices.ContainsFunc(h.Vector, func(v int8) bool { return v != 0 }) {
		return
	}
	copy(d.vector(seat), h.Vector)
	signs := d.signsOf(seat)
	clear(signs)
	for i, v := range h.Vector {
		if v > 0 {
			signs[i>>6] |= 1 << (i & 63)
		}
	}
	d.seatIndex[seat] = int32(len(d.seats))
	d.seats = append(d.seats, seat)
}

func (d *dense) vector(seat int32) []int8 {
	return d.vectors[int(seat)*d.stride : (int(seat)+1)*d.stride]
}
func (d *dense) signsOf(seat int32) []uint64 {
	return d.signs[int(seat)*d.words : (int(seat)+1)*d.words]
}

func (d *dense) remove(x *Index, seat int32, _ *Hint) {
	x.free = append(x.free, seat)
	at := d.seatIndex[seat]
	if at == none {
		return
	}
	last := d.seats[len(d.seats)-1]
	d.seats[at], d.seatIndex[last] = last, at
	d.seats, d.seatIndex[seat] = d.seats[:len(d.seats)-1], none
}

func (d *dense) top(x *Index, q query, _ *Hint, dst []Candidate) []Candidate {
	return x.rank(q, d.score(x, q), dst)
}

func (d *dense) score(x *Index, q query) (own int32) {
	if d.seatIndex[q.seat] == none {
		return 0
	}
	d.listFitting(x, q)
	differences(d.distance, d.fittingSeats, d.signs, d.signsOf(q.seat))
	clear(d.count)
	for _, n := range d.distance {
		d.count[n]++
	}
	far, n := int32(0), d.count[0]
	for int(far) < d.dimension && n < minCompared {
		far++
		n += d.count[far]
	}
	v := d.vector(q.seat)
	for i, s := range d.fittingSeats {
		if d.distance[i] <= far {
			if score := dot(v, d.vector(s)); score > 0 {
				x.scores[s] = score
				x.scoredSeats = append(x.scoredSeats, s)
			}
		}
	}
	return dot(v, v)
}

// listFitting lists the seats that fit a query in d.fitting, and sets d.distance to the same length.
func (d *dense) listFitting(x *Index, q query) {
	d.fittingSeats = d.fittingSeats[:0]
	for _, s := range d.seats {
		if x.canMatch(q, s) {
			d.fittingSeats = append(d.fittingSeats, s)
		}
	}
	d.distance = slices.Grow(d.distance[:0], len(d.fittingSeats))[:len(d.fittingSeats)]
}

// none stands for no index.
const none = -1

func differencesPlain(out, seats []int32, signs, asked []uint64) {
	for i, s := range seats {
		n := 0
		for k, w := range signs[int(s)*len(asked):][:len(asked)] {
			n += bits.OnesCount64(w ^ asked[k])
		}
		out[i] = int32(n)
	}
}

func dotPlain(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 { // no bounds checks inside
		x, y := (*[8]int8)(a), (*[8]int8)(b)
		s0 += int32(x[0])*int32(y[0]) + int32(x[4])*int32(y[4])
		s1 += int32(x[1])*int32(y[1]) + int32(x[5])*int32(y[5])
		s2 += int32(x[2])*int32(y[2]) + int32(x[6])*int32(y[6])
		s3 += int32(x[3])*int32(y[3]) + int32(x[7])*int32(y[7])
		a, b = a[8:], b[8:]
	}
	return s0 + s1 + s2 + s3
}
