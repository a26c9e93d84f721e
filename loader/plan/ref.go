package plan

// Ref returns the name of a document in a plan, made of the number of its source and its sequence there. For source 0
// it equals the sequence.
func Ref(source int, sequence uint64) uint64 { return uint64(source)<<sequenceBits | sequence }

// RefSource returns the number of a document's source.
func RefSource(ref uint64) int { return int(ref >> sequenceBits) }

// RefSequence returns a document's sequence in its source.
func RefSequence(ref uint64) uint64 { return ref & MaxSequence }

// A sequence has 48 bits: a thousand million documents a day for 700 years.
const sequenceBits = 48

// MaxSequence is the largest sequence that a plan can name.
const MaxSequence = 1<<sequenceBits - 1
