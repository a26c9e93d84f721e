// Package packonline packs documents into training rows online: lengths go in, placements come out.
//
// It is pure. A Packer has no clock, no goroutine, no I/O and no randomness that is not keyed by its configuration, so what it emits
// is a function of its configuration and of the documents added so far, and nothing else. It sees lengths, never tokens.
package packonline

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Doc is what a Packer is told of a document.
type Doc struct {
	Seq    uint64 // identity: its sequence in the document stream; ascending
	Length int32  // tokens, end-of-document token included; at least 1
}

// Piece is a contiguous part of one document: tokens [Start, Start+Length).
type Piece struct {
	Doc    uint64 // Doc.Seq of the document
	Start  int32
	Length int32
}

// Counts are totals since a Packer was made. They satisfy, at every moment,
//
//	Tokens = Slots - Padding - Repeated + Dropped + pending tokens   (invariant 1: conservation)
type Counts struct {
	Documents int64 // documents added
	Tokens    int64 // their tokens
	Rows      int64 // rows emitted
	Slots     int64 // tokens that those rows hold, padding included
	Padding   int64 // slots without a token
	Repeated  int64 // tokens emitted a second time on purpose
	Dropped   int64 // tokens dropped on purpose
	Truncated int64 // documents that were split into more than one piece
}

// Pending describes what a Packer holds back.
type Pending struct {
	Pieces int
	Tokens int64
	Oldest uint64 // smallest Doc.Seq that a pending piece belongs to; meaningless without pieces
}

// Packer is one packing method over a bounded pool.
type Packer interface {
	// Add takes the next document and appends the rows that it completes to out. A Length below 1 and a Seq that is not above
	// the one before are programming errors and panic.
	Add(d Doc, out *Rows)
	// Flush appends everything that is pending to out, padding where it must. The Packer can go on afterwards.
	Flush(out *Rows)
	Counts() Counts
	Pending() Pending
	// Next returns the least Doc.Seq that Add takes.
	Next() uint64
	// AppendState appends the complete state to b: a Packer of the same configuration that reads it with RestoreState goes on
	// exactly as this one would. The state holds references, never tokens.
	AppendState(b []byte) []byte
	// RestoreState replaces the state of a Packer and returns the bytes behind it. A state of another format, of another
	// configuration, or one that AppendState can not have written is an error and changes nothing.
	RestoreState(b []byte) (rest []byte, err error)
}

// Config chooses a method and its bounds.
type Config struct {
	// Method is the name of the packing method: concat or bfd.
	Method string `koanf:"method" json:"method"`
	// Buckets are the row lengths in tokens, ascending. Methods with one row length take exactly one.
	Buckets []int `koanf:"buckets" json:"buckets"`
	// Pool is how many pieces may wait to be packed (unit: pieces). More pieces make fuller rows and older documents; the pieces of
	// at least ten rows should fit, for a pool that does not fill a row makes rows of padding. concat has no pool: it holds one row.
	Pool int `koanf:"pool" json:"pool"`
	// MaxAge bounds how many documents may arrive between a document's arrival and the emission of its last piece (unit:
	// documents): older pieces leave in rows that are padded where they must be. A MaxAge below Pool holds the pool to MaxAge
	// pieces. While no document arrives nothing ages. 0 sets no bound.
	MaxAge int `koanf:"max_age" json:"max_age"`
	// Seed keys every draw of the method.
	Seed uint64 `koanf:"-" json:"-"`
}

// Bounds of a Config. Best-fit-decreasing keeps a table with one entry for every length up to that of a row.
const (
	maxRow    = math.MaxInt32 / 2
	maxRowBFD = 1 << 24
	maxPool   = 1 << 30
	maxAge    = 1 << 30
)

// Methods lists the names that New knows.
func Methods() []string { return []string{"concat", "bfd"} }

// New returns an empty Packer. The error joins every FieldError of the configuration.
func New(c Config) (Packer, error) {
	var bad []error
	for _, e := range c.Validate() {
		bad = append(bad, e)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	switch c.Method {
	case "bfd":
		return newBFD(c), nil
	default:
		return newConcat(c), nil
	}
}

// FieldError is a bad field of a configuration: Field is its path below the configuration it belongs to.
type FieldError struct {
	Field string
	Value any
	Want  string
}

func (e FieldError) Error() string { return fmt.Sprintf("%s: %v: want %s", e.Field, e.Value, e.Want) }

// Validate returns every bad field.
func (c Config) Validate() []FieldError {
	var bad []FieldError
	add := func(field string, value any, want string) { bad = append(bad, FieldError{field, value, want}) }
	if !slices.Contains(Methods(), c.Method) {
		add("method", c.Method, fmt.Sprintf("one of %v", Methods()))
	}
	if len(c.Buckets) != 1 {
		add("buckets", c.Buckets, "exactly one row length for this method")
	}
	longest := maxRow
	if c.Method == "bfd" {
		longest = maxRowBFD
	}
	for i, l := range c.Buckets {
		if l < 2 || l > longest {
			add(fmt.Sprintf("buckets[%d]", i), l, fmt.Sprintf("a row length of 2 to %d tokens for this method", longest))
		}
		if i > 0 && l <= c.Buckets[i-1] {
			add(fmt.Sprintf("buckets[%d]", i), l, "row lengths in ascending order, each once")
		}
	}
	if c.Pool < 1 || c.Pool > maxPool {
		add("pool", c.Pool, "1 to 2^30 pieces")
	}
	if c.MaxAge < 0 || c.MaxAge > maxAge {
		add("max_age", c.MaxAge, "0 (no bound) to 2^30 documents")
	}
	return bad
}
