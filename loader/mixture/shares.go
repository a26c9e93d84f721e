package mixture

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
)

// Unit is the sum of all shares. Shares are integers in parts per million, so that rounding is the same on every
// machine.
const Unit = 1_000_000

// apportion divides Unit in proportion to the weights. Each weight gets its part rounded down, and the rest goes to
// those with the largest remainders; of equal ones, to the first. A weight above 0 gets at least 1. If all weights
// are 0, all get 0.
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
	return distributeRemainder(out, left, func(a, b int) int { return rests[b].Cmp(rests[a]) })
}

// distributeRemainder adds left to the parts above 0, 1 each in the order of compare. A negative left is subtracted
// from the largest parts.
func distributeRemainder(parts []int64, left int64, compare func(a, b int) int) []int64 {
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

// normalizeShares divides Unit in proportion to parts, with the same rounding as apportion.
func normalizeShares(parts []int64) []int64 {
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
	return distributeRemainder(out, left, func(a, b int) int { return cmp.Compare(rests[b], rests[a]) })
}

// toRationals returns the exact values of the numbers.
func toRationals(x []float64) []*big.Rat {
	out := make([]*big.Rat, len(x))
	for i := range x {
		out[i] = new(big.Rat).SetFloat64(x[i])
	}
	return out
}
