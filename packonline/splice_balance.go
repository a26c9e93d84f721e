package packonline

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// balance compares buffered with arriving tokens, by class. Otherwise a retriever that prefers short documents would
// use them up. A run would then begin with too many short documents and end with too few.
//
//   - With several row lengths the class of a piece is the shortest row that holds it. Short documents leave with any
//     related row. Long ones fit into few rows and would be buffered until they are the oldest. So the next root is
//     from the class with the greatest buffered share.
//   - With one row length the classes are short pieces and others. Without short pieces a flush cannot fill its rows.
//     So while they are scarce they do not continue rows; they only fill their ends.
type balance struct {
	edges   []int32 // by class: length of its longest piece
	arrived []int64 // by class: recently arrived tokens, halved periodically
	waits   []int64 // by class: buffered tokens
}

const (
	classRoots  = 16 // maximum oldest pieces of the class that are tried as a root before the oldest of all
	latelyPools = 16 // number of pools of documents after which the arrived tokens are halved
	shortPart   = 4  // with one row length, pieces of at most 1/shortPart of it are short
	scarcePart  = 2  // short pieces are scarce while their buffered share is below 1/scarcePart of their share of arrivals
)

func newBalance(lengths []int32) balance {
	if len(lengths) == 1 {
		lengths = []int32{lengths[0] / shortPart, lengths[0]}
	}
	return balance{lengths, make([]int64, len(lengths)), make([]int64, len(lengths))}
}

func (b *balance) arrive(length int32) {
	class := bucketFor(b.edges, length)
	b.arrived[class] += int64(length)
	b.waits[class] += int64(length)
}

func (b *balance) leave(length int32) { b.waits[bucketFor(b.edges, length)] -= int64(length) }

// scarce reports whether pieces of the first class are scarce.
func (b *balance) scarce() bool {
	return lessProduct(scarcePart*b.waits[0], sum(b.arrived), b.arrived[0], sum(b.waits))
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}

func (b *balance) halve() {
	for k := range b.arrived {
		b.arrived[k] /= 2
	}
}

// most returns the class with the greatest ratio of buffered to arrived tokens, or none if nothing is buffered.
func (b *balance) most() int {
	most := none
	for k, n := range b.waits {
		if n > 0 && (most == none || lessProduct(b.waits[most], b.arrived[k], n, b.arrived[most])) {
			most = k
		}
	}
	return most
}

// lessProduct reports whether a*b < c*d. No argument may be negative.
func lessProduct(a, b, c, d int64) bool {
	high, low := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return high < high2 || high == high2 && low < low2
}

func (b *balance) append(state []byte) []byte {
	for _, n := range b.arrived {
		state = binary.AppendUvarint(state, uint64(n))
	}
	return state
}

// balance reads the arrived tokens of a state. The buffered tokens are computed from the stock.
func (r *reader) balance(c Counts, s *stock, lengths []int32) balance {
	b := newBalance(lengths)
	left := c.Tokens
	for k := range b.arrived {
		b.arrived[k] = r.number(fmt.Sprintf("tokens of class %d", k), left)
		left -= b.arrived[k]
	}
	for i := s.ages.first; i != none; i = s.newer(&s.ages, i) {
		b.waits[bucketFor(b.edges, s.items[i].length)] += int64(s.items[i].length)
	}
	return b
}
