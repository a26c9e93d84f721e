package packonline

import (
	"fmt"
	"math"
	"slices"
)

// Config selects a method and its bounds.
type Config struct {
	// Method is the name of the packing method, one of Methods.
	Method string `koanf:"method" json:"method"`
	// Buckets are the row lengths in tokens, ascending. Methods with one row length require exactly one.
	Buckets []int `koanf:"buckets" json:"buckets"`
	// Atom is the unit that is shuffled, in rows: 0.25, 0.5, 1, 2 or 4. Atoms of a part of a row are packed separately
	// and merged into rows after the shuffle. Atoms of several rows stay together.
	Atom float64 `koanf:"atom" json:"atom"`
	// Pool is the maximum number of buffered pieces (unit: pieces). More pieces make fuller rows and older documents.
	// The pieces of at least ten rows should fit, because a pool that does not fill a row makes rows of padding. Methods
	// that only buffer rows under construction have no pool.
	Pool int `koanf:"pool" json:"pool"`
	// Holdback is the maximum number of pieces in the finished rows of the holdback (unit: percent of Pool, and at most a
	// quarter of MaxAge). The holdback makes every part of a run a fair sample of the documents. 0 disables it. bucket,
	// bfd and splice read it.
	Holdback int `koanf:"holdback" json:"holdback,omitempty"`
	// MaxAge bounds how many documents may arrive between a document's arrival and the emission of its last piece (unit:
	// documents). Older pieces are emitted in rows that are padded if necessary. A MaxAge below Pool limits the pool to
	// MaxAge pieces. While no document arrives, ages do not increase. 0 sets no bound; bucket then uses 16 Pool
	// documents. With atoms of other than one row, a part of MaxAge is for gathering them (AtomWait), and a Packer emits
	// pieces within the rest.
	MaxAge int `koanf:"max_age" json:"max_age"`
	// MaxDocumentsPerRow is the maximum number of pieces of a row (unit: documents). A row that has as many is padded. 0
	// sets no bound. Atoms must be whole rows.
	MaxDocumentsPerRow int `koanf:"max_documents_per_row" json:"max_documents_per_row,omitempty"`
	// Overlap is the maximum part of a row that the windows of seamless may share with their neighbours: r_max of the
	// paper, a share of the row's length.
	Overlap float64 `koanf:"overlap" json:"overlap,omitempty"`
	// RepeatLoss is whether tokens that neighbouring windows of seamless share have their loss once, in the earlier
	// window, or twice.
	RepeatLoss string `koanf:"repeat_loss" json:"repeat_loss,omitempty"`
	// Extra is how many tokens bfd-m and seamless may put into a bin beyond the length of a row, or of an atom that is a
	// part of one. These tokens are dropped (unit: tokens).
	Extra int `koanf:"extra" json:"extra,omitempty"`
	// PaddingThreshold is P of bucketllm: a row with more space left than this share of its length takes a part of a
	// document instead of padding.
	PaddingThreshold float64 `koanf:"padding_threshold" json:"padding_threshold,omitempty"`
	// Splice is only read by splice.
	Splice Splice `koanf:"splice" json:"splice,omitzero"`
	// Seed keys every draw of the method.
	Seed uint64 `koanf:"-" json:"-"`
}

// Values of Config.RepeatLoss. Empty is LossTwice.
const (
	LossOnce  = "once"
	LossTwice = "twice"
)

// Bounds of a Config. maxTable bounds the rows of methods that have a table with one entry for every length up to
// that of a row.
const (
	maxRow     = math.MaxInt32 / 2
	maxTable   = 1 << 24
	maxBuckets = 64 // the work per document grows with them
	maxPool    = 1 << 30
	maxAge     = 1 << 30
)

// validAtoms are the valid values of Config.Atom.
var validAtoms = []float64{0.25, 0.5, 1, 2, 4}

// FieldError is an invalid field of a configuration. Field is its path below the configuration that contains it.
type FieldError struct {
	Field string
	Value any
	Want  string
}

func (e FieldError) Error() string { return fmt.Sprintf("%s: %v: want %s", e.Field, e.Value, e.Want) }

// Validate returns every invalid field. Fields that the method does not read are checked too, because a value such as
// a negative overlap is always an error.
func (c Config) Validate() []FieldError {
	var bad []FieldError
	add := func(field string, value any, want string) { bad = append(bad, FieldError{field, value, want}) }
	m := findMethod(c.Method)
	if m == nil {
		add("method", c.Method, fmt.Sprintf("one of %v", Methods()))
		m = &method{multiBucket: true, maxRowLength: maxRow}
	}
	bad = append(bad, c.validateBuckets(m)...)
	if len(c.Buckets) > maxBuckets {
		return bad
	}
	if !slices.Contains(validAtoms, c.Atom) {
		add("atom", c.Atom, fmt.Sprintf("one of %v rows", validAtoms))
	}
	if c.Pool < 1 || c.Pool > maxPool {
		add("pool", c.Pool, "1 to 2^30 pieces")
	}
	if c.Holdback < 0 || c.Holdback > maxHold {
		add("holdback", c.Holdback, fmt.Sprintf("0 (none) to %d percent of the pool", maxHold))
	}
	if c.MaxAge < 0 || c.MaxAge > maxAge {
		add("max_age", c.MaxAge, "0 (no bound) to 2^30 documents")
	}
	bad = append(bad, c.validateDocumentsPerRow(m)...)
	if !(c.Overlap >= 0 && c.Overlap < 1) {
		add("overlap", c.Overlap, "a share of the row, 0 to below 1")
	}
	if c.RepeatLoss != "" && c.RepeatLoss != LossOnce && c.RepeatLoss != LossTwice {
		add("repeat_loss", c.RepeatLoss, LossOnce+" or "+LossTwice)
	}
	if !c.isValidExtra(m) {
		add("extra", c.Extra, "0 tokens to those of a row, or of the part of one that an atom is")
	}
	if !(c.PaddingThreshold >= 0 && c.PaddingThreshold <= 1) {
		add("padding_threshold", c.PaddingThreshold, "a share of the row, 0 to 1")
	}
	if len(bad) == 0 && m.validate != nil {
		bad = m.validate(c)
	}
	return bad
}

func (c Config) validateDocumentsPerRow(m *method) []FieldError {
	const field = "max_documents_per_row"
	switch n := c.MaxDocumentsPerRow; {
	case n < 0 || n > maxRow:
		return []FieldError{{field, n, "0 (no bound) or at least 1 document"}}
	case n > 0 && m.name != "" && !m.boundsDocuments:
		return []FieldError{{field, n, fmt.Sprintf("0 (no bound) with %s, or one of the methods %v", m.name,
			methodsThat(func(m *method) bool { return m.boundsDocuments }))}}
	case n > 0 && c.Atom < 1:
		return []FieldError{{field, n, "0 (no bound) with atoms that are parts of rows, which are merged into rows later"}}
	}
	return nil
}

// isValidExtra reports whether Extra is at most the smallest bucket or atom, if the method reads Extra.
func (c Config) isValidExtra(m *method) bool {
	if c.Extra < 0 || c.Extra > maxTable {
		return false
	}
	return len(c.Buckets) == 0 || !m.hasParameter("extra") || float64(c.Extra) <= float64(c.Buckets[0])*min(c.Atom, 1)
}

// validateBuckets is the part of Validate for row lengths. With too many row lengths it does not list them.
func (c Config) validateBuckets(m *method) (bad []FieldError) {
	add := func(field string, value any, want string) { bad = append(bad, FieldError{field, value, want}) }
	switch {
	case len(c.Buckets) == 0:
		add("buckets", c.Buckets, "at least one row length")
	case len(c.Buckets) > 1 && !m.multiBucket:
		add("buckets", c.Buckets, "exactly one row length for this method")
	}
	if len(c.Buckets) > maxBuckets {
		add("buckets", fmt.Sprintf("%d row lengths", len(c.Buckets)), fmt.Sprintf("at most %d row lengths", maxBuckets))
		return bad
	}
	for i, l := range c.Buckets {
		field := fmt.Sprintf("buckets[%d]", i)
		if l < 2 || l > m.maxRowLength {
			add(field, l, fmt.Sprintf("a row length of 2 to %d tokens for this method", m.maxRowLength))
		}
		if i > 0 && l <= c.Buckets[i-1] {
			add(field, l, "row lengths in ascending order, each once")
		}
		if part := float64(l) * c.Atom; c.Atom > 0 && c.Atom < 1 && (part != math.Trunc(part) || part < 2) {
			add("atom", c.Atom, fmt.Sprintf("an atom of 2 or more whole tokens; a row has %d", l))
		}
	}
	return bad
}

// Canonical returns c with the parameters that its method does not read set to 0. Two configurations that pack
// identically are then equal.
func (c Config) Canonical() Config {
	m := findMethod(c.Method)
	if m == nil {
		return c
	}
	if !m.hasParameter("holdback") {
		c.Holdback = 0
	}
	if !m.hasParameter("overlap") {
		c.Overlap = 0
	}
	if !m.hasParameter("overlap") || c.RepeatLoss == LossTwice {
		c.RepeatLoss = ""
	}
	if !m.hasParameter("extra") {
		c.Extra = 0
	}
	if !m.hasParameter("padding_threshold") {
		c.PaddingThreshold = 0
	}
	if !m.hasParameter("splice") {
		c.Splice = Splice{}
	}
	return c
}

// Shares of MaxAge for gathering atoms: 1/partAgeShare if a row lacks parts, 1/rowsAgeShare if an atom lacks rows. When
// it must leave, the row is padded, while the atom leaves with fewer rows.
const (
	partAgeShare = 2
	rowsAgeShare = 8
)

// AtomWait returns how many documents may arrive while an atom of several rows lacks rows, or a row lacks atoms that
// are parts of it. bounded is false if no bound applies. A Packer emits rows and atoms within the rest of MaxAge, so
// that MaxAge bounds both waits together.
func (c Config) AtomWait() (documents int, bounded bool) {
	switch {
	case c.Atom == 1 || c.MaxAge == 0:
		return 0, false
	case c.Atom < 1:
		return c.MaxAge / partAgeShare, true
	default:
		return c.MaxAge / rowsAgeShare, true
	}
}

// packerMaxAge returns the part of MaxAge that is left for the Packer, or 0 for no bound.
func (c Config) packerMaxAge() int {
	wait, _ := c.AtomWait()
	return c.MaxAge - wait
}

// rowLengths returns the lengths of packed rows, ascending: those of the buckets, or of the atoms that are parts of
// them.
func (c Config) rowLengths() []int32 {
	lengths := make([]int32, len(c.Buckets))
	for i, l := range c.Buckets {
		lengths[i] = int32(float64(l) * min(c.Atom, 1))
	}
	return lengths
}
