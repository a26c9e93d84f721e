package mixture

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
)

// Unit is the sum of all shares: they are whole parts per million, so that no machine rounds them in another way.
const Unit = 1_000_000

// apportion divides Unit by weights: each gets its part rounded down, and what is left goes to those with the largest
// rests, of equal ones to the first. A weight above 0 gets 1 at least. Weights that are all 0 get nothing.
func apportion(weights []*big.Rat) []int64 {
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	out := make([]int64, len(weights))
	if sum.Sign() == 0 {
		return out
	}
	rests := make([]*big.Rat, len(weights))
	left := int64(Unit)
	for i, w := range weights {
		exact := new(big.Rat).Quo(w, sum)
		exact.Mul(exact, big.NewRat(Unit, 1))
		out[i] = new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
		rests[i] = exact.Sub(exact, big.NewRat(out[i], 1))
		if out[i] == 0 && w.Sign() > 0 {
			out[i], rests[i] = 1, new(big.Rat)
		}
		left -= out[i]
	}
	return settle(out, left, func(a, b int) int { return rests[b].Cmp(rests[a]) })
}

// settle adds left to the parts, one to each in the order by compare; of those below 0 it takes from the largest parts.
func settle(parts []int64, left int64, compare func(a, b int) int) []int64 {
	order := make([]int, 0, len(parts))
	for i := range parts {
		if parts[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, compare)
	for i := 0; left > 0; i = (i + 1) % len(order) {
		parts[order[i]]++
		left--
	}
	for ; left < 0; left++ {
		parts[slices.MaxFunc(order, func(a, b int) int { return cmp.Compare(parts[a], parts[b]) })]--
	}
	return parts
}

// share divides Unit by parts, as apportion does.
func share(parts []int64) []int64 {
	sum := uint64(0)
	for _, p := range parts {
		sum += uint64(p)
	}
	out := make([]int64, len(parts))
	if sum == 0 || sum == Unit {
		copy(out, parts)
		return out
	}
	rests := make([]uint64, len(parts))
	left := int64(Unit)
	for i, p := range parts {
		hi, lo := bits.Mul64(uint64(p), Unit)
		q, r := bits.Div64(hi, lo, sum)
		out[i], rests[i] = int64(q), r
		if q == 0 && p > 0 {
			out[i], rests[i] = 1, 0
		}
		left -= out[i]
	}
	return settle(out, left, func(a, b int) int { return cmp.Compare(rests[b], rests[a]) })
}

// rationals returns numbers as they are, without rounding.
func rationals(x []float64) []*big.Rat {
	out := make([]*big.Rat, len(x))
	for i := range x {
		out[i] = new(big.Rat).SetFloat64(x[i])
	}
	return out
}
