package packonline

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// balance compares what waits with what came, by class: by the shortest row that holds a piece. Short documents leave with whatever is
// related to them, long ones fit into few rows and would wait until they are the oldest. They would then be too many of those that
// wait, and a run would begin rich in short documents and end poor in them. So the class of which too much waits has the next root.
//
// With one row length there is one class, and nothing to compare.
type balance struct {
	came  []int64 // tokens of the pieces that came, lately: halved again and again
	waits []int64 // tokens of those that wait
}

const (
	classRoots  = 16 // how many of a class's oldest pieces are tried as a root before those of all
	latelyPools = 16 // after how many documents what came is halved
)

func newBalance(classes int) balance {
	if classes == 1 {
		return balance{}
	}
	return balance{make([]int64, classes), make([]int64, classes)}
}

func (b *balance) come(class int, length int32) {
	if b.came != nil {
		b.came[class] += int64(length)
		b.waits[class] += int64(length)
	}
}

func (b *balance) leave(class, length int32) {
	if b.came != nil {
		b.waits[class] -= int64(length)
	}
}

func (b *balance) halve() {
	for k := range b.came {
		b.came[k] /= 2
	}
}

// most returns the class of which the greatest share of what came waits, none with one class.
func (b *balance) most() int {
	most := none
	for k, n := range b.waits {
		if n > 0 && (most == none || lessProduct(b.waits[most], b.came[k], n, b.came[most])) {
			most = k
		}
	}
	return most
}

// lessProduct reports whether a*b < c*d. None is negative.
func lessProduct(a, b, c, d int64) bool {
	high, low := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return high < high2 || high == high2 && low < low2
}

func (b *balance) append(state []byte) []byte {
	for _, n := range b.came {
		state = binary.AppendUvarint(state, uint64(n))
	}
	return state
}

// balance reads what a state says of what came. What waits is in the stock.
func (r *reader) balance(c Counts, s *stock) balance {
	b := newBalance(max(1, len(s.needs)))
	left := c.Tokens
	for k := range b.came {
		b.came[k] = r.number(fmt.Sprintf("tokens of class %d", k), left)
		left -= b.came[k]
	}
	for i := s.ages.first; i != none && b.waits != nil; i = s.newer(&s.ages, i) {
		b.waits[s.items[i].class] += int64(s.items[i].length)
	}
	return b
}
