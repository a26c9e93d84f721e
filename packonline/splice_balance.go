package packonline

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// classBalance compares buffered with arriving tokens, by class. Otherwise a retriever that prefers short documents
// would use them up. A run would then begin with too many short documents and end with too few.
//
//   - With several row lengths the class of a piece is the shortest row that holds it. Short documents leave with any
//     related row. Long ones fit into few rows and would be buffered until they are the oldest. So the next root is
//     from the class with the greatest buffered share.
//   - With one row length the classes are short pieces and others. Without short pieces a flush cannot fill its rows.
//     So while they are scarce they do not continue rows; they only fill their ends.
type classBalance struct {
	maxLengths []int32 // by class: length of its longest piece
	arrived    []int64 // by class: recently arrived tokens, halved periodically
	buffered   []int64 // by class: buffered tokens
}

const (
	maxClassRootTries = 16 // maximum oldest pieces of the class that are tried as a root before the oldest of all
	halvingPools      = 16 // number of pools of documents after which the arrived tokens are halved
	shortPart         = 4  // with one row length, pieces of at most 1/shortPart of it are short
	// short pieces are scarce while their buffered share is below 1/scarcePart of their share of arrivals
	scarcePart = 2
)

func newClassBalance(lengths []int32) classBalance {
	if len(lengths) == 1 {
		lengths = []int32{lengths[0] / shortPart, lengths[0]}
	}
	return classBalance{lengths, make([]int64, len(lengths)), make([]int64, len(lengths))}
}

func (b *classBalance) addPiece(length int32) {
	class := bucketFor(b.maxLengths, length)
	b.arrived[class] += int64(length)
	b.buffered[class] += int64(length)
}

func (b *classBalance) removePiece(length int32) {
	b.buffered[bucketFor(b.maxLengths, length)] -= int64(length)
}

// isShortScarce reports whether pieces of the first class are scarce.
func (b *classBalance) isShortScarce() bool {
	return lessProduct(scarcePart*b.buffered[0], sumInt64s(b.arrived), b.arrived[0], sumInt64s(b.buffered))
}

func sumInt64s(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}

func (b *classBalance) halveArrived() {
	for k := range b.arrived {
		b.arrived[k] /= 2
	}
}

// mostBuffered returns the class with the greatest ratio of buffered to arrived tokens, or none if nothing is buffered.
func (b *classBalance) mostBuffered() int {
	most := none
	for k, n := range b.buffered {
		if n > 0 && (most == none || lessProduct(b.buffered[most], b.arrived[k], n, b.arrived[most])) {
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

func (b *classBalance) appendState(state []byte) []byte {
	for _, n := range b.arrived {
		state = binary.AppendUvarint(state, uint64(n))
	}
	return state
}

// readBalance reads the arrived tokens of a state. The buffered tokens are computed from the stock.
func (r *reader) readBalance(c Counts, s *indexedPool, lengths []int32) classBalance {
	b := newClassBalance(lengths)
	left := c.Tokens
	for k := range b.arrived {
		b.arrived[k] = r.number(fmt.Sprintf("tokens of class %d", k), left)
		left -= b.arrived[k]
	}
	for i := s.byAge.first; i != none; i = s.newerItem(&s.byAge, i) {
		b.buffered[bucketFor(b.maxLengths, s.items[i].length)] += int64(s.items[i].length)
	}
	return b
}
