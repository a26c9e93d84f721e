package packonline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// stateVersion is the version of the format of AppendState:
//
//	version byte
//	configuration: length of the method's name and the name, number of buckets and each of them, then atom * 4, pool,
//	hold, max age, the bits of overlap, extra, the bits of the padding threshold, seed, and
//	max documents per row if it is not 0
//	totals: documents, rows, slots, padding, repeated, dropped, truncated documents, smallest sequence that is accepted
//	the method's lists of buffered pieces: for each their number, and for each piece: sequences since the piece before
//	(since 0 for the first of all), documents since the piece before (likewise), length * 2 + (start > 0), and the start
//	if it is not 0
//	further state of the method
//	the held rows, if a holdback is configured (hold_state.go)
//
// Distances are varints, all other numbers uvarints. The number of arrived tokens follows from conservation.
const stateVersion = 1

var errTruncated = errors.New("state is cut short")

// appendState appends the state that is common to all methods.
func (t *packerBase) appendState(b []byte, lists ...[]bufferedPiece) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, uint64(len(t.config.Method)))
	b = append(b, t.config.Method...)
	for _, f := range t.config.stateNumbers() {
		b = binary.AppendUvarint(b, f.value)
	}
	c := &t.counts
	for _, n := range []int64{c.Documents, c.Rows, c.Slots, c.Padding, c.Repeated, c.Dropped, c.Truncated} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, t.nextSeq)
	var before bufferedPiece
	for _, pieces := range lists {
		b = binary.AppendUvarint(b, uint64(len(pieces)))
		for _, w := range pieces {
			b = appendPiece(b, w, &before)
		}
	}
	return b
}

// appendPiece appends a piece of a list and stores it in before.
func appendPiece(b []byte, w bufferedPiece, before *bufferedPiece) []byte {
	b = binary.AppendVarint(b, int64(w.doc-before.doc))
	b = binary.AppendVarint(b, w.arrived-before.arrived)
	*before = w
	if w.start == 0 {
		return binary.AppendUvarint(b, uint64(w.length)<<1)
	}
	b = binary.AppendUvarint(b, uint64(w.length)<<1|1)
	return binary.AppendUvarint(b, uint64(w.start))
}

// stateNumbers returns the configuration without its method, in the order of the state.
func (c Config) stateNumbers() []configNumber {
	out := []configNumber{{"number of buckets", uint64(len(c.Buckets))}}
	for _, l := range c.Buckets {
		out = append(out, configNumber{"row length", uint64(l)})
	}
	out = append(out,
		configNumber{"atom * 4", uint64(4 * c.Atom)},
		configNumber{"pool", uint64(c.Pool)},
		configNumber{"holdback", uint64(c.Holdback)},
		configNumber{"max_age", uint64(c.MaxAge)},
		configNumber{"overlap (its bits)", math.Float64bits(c.Overlap)},
		configNumber{"extra", uint64(c.Extra)},
		configNumber{"padding_threshold (its bits)", math.Float64bits(c.PaddingThreshold)},
		configNumber{"seed", c.Seed},
	)
	if c.MaxDocumentsPerRow > 0 {
		out = append(out, configNumber{"max_documents_per_row", uint64(c.MaxDocumentsPerRow)})
	}
	if c.Method == "splice" {
		out = append(out, c.Splice.stateNumbers()...)
	}
	return out
}

type configNumber struct {
	name  string
	value uint64
}

// readState returns the tally and the lists of buffered pieces of a state, and the bytes after them. Each piece is
// valid on its own; the method checks them together. t is not changed.
func (t *packerBase) readState(b []byte,
	lists int) (restored packerBase, pieces [][]bufferedPiece, rest []byte, err error) {
	restored = newTally(t.config)
	r := reader{b: b}
	r.checkConfig(t.config)
	c := &restored.counts
	c.Documents = r.number("documents", math.MaxInt64)
	c.Rows = r.number("rows", math.MaxInt64/int64(t.longest)/4)
	c.Slots = r.number("slots", c.Rows*int64(t.longest))
	if r.err == nil && c.Slots < c.Rows*int64(t.lengths[0]) {
		r.fail(fmt.Errorf("%d rows of %d tokens or more can not have %d slots", c.Rows, t.lengths[0], c.Slots))
	}
	c.Padding = r.number("padding tokens", c.Slots)
	c.Repeated = r.number("repeated tokens", c.Slots-c.Padding)
	c.Dropped = r.number("dropped tokens", math.MaxInt64/4)
	c.Truncated = r.number("truncated documents", c.Documents)
	restored.nextSeq = r.uvarint()
	var before bufferedPiece
	var tokens int64
	for range lists {
		pieces = append(pieces, r.readPieces(&restored, &before, &tokens))
	}
	c.Tokens = c.Slots - c.Padding - c.Repeated + c.Dropped + tokens
	if r.err == nil && (c.Tokens < c.Documents || restored.nextSeq < uint64(c.Documents)) {
		r.err = fmt.Errorf("%d documents can not have %d tokens and sequences below %d", c.Documents, c.Tokens,
			restored.nextSeq)
	}
	if r.err != nil {
		return packerBase{}, nil, nil, fmt.Errorf("restore packer: %w", r.err)
	}
	return restored, pieces, r.b, nil
}

// reader decodes a state. After its first error it reads zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) number(what string, most int64) int64 {
	v := r.uvarint()
	if v > uint64(most) {
		r.fail(fmt.Errorf("state has %d %s, at most %d can be", v, what, most))
		return 0
	}
	return int64(v)
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// checkConfig checks the format version and the configuration of the state.
func (r *reader) checkConfig(c Config) {
	if len(r.b) == 0 {
		r.fail(errTruncated)
		return
	}
	if r.b[0] != stateVersion {
		r.fail(fmt.Errorf("state has format version %d, this program reads %d", r.b[0], stateVersion))
		return
	}
	r.b = r.b[1:]
	n := r.number("bytes of method", int64(len(r.b)))
	if n > int64(len(r.b)) {
		r.fail(errTruncated)
		return
	}
	if method := string(r.b[:n]); r.err == nil && method != c.Method {
		r.fail(fmt.Errorf("state has method %.20q, the configuration %q", method, c.Method))
		return
	}
	r.b = r.b[n:]
	for _, f := range c.stateNumbers() {
		if have := r.uvarint(); r.err == nil && have != f.value {
			r.fail(fmt.Errorf("state has %s %d, the configuration %d", f.name, have, f.value))
		}
	}
}

// readPieces reads a list of buffered pieces and adds up their tokens.
func (r *reader) readPieces(t *packerBase, before *bufferedPiece, tokens *int64) []bufferedPiece {
	const least = 3 // bytes per piece
	n := r.uvarint()
	if n > uint64(len(r.b)/least) {
		r.fail(errTruncated)
		return nil
	}
	pieces := make([]bufferedPiece, 0, n)
	for range n {
		sequences, documents := r.varint(), r.varint()
		length := r.number("tokens in a piece", int64(t.longest)*2+1)
		w := bufferedPiece{before.doc + uint64(sequences), before.arrived + documents, 0, int32(length >> 1)}
		if length&1 == 1 {
			w.start = int32(r.number("tokens before a piece", math.MaxInt32-length>>1))
		}
		if r.err == nil {
			r.err = t.checkPiece(w)
		}
		if r.err != nil {
			return nil
		}
		pieces = append(pieces, w)
		*tokens += int64(w.length)
		*before = w
	}
	return pieces
}

// checkPiece returns an error if w cannot be buffered.
func (t *packerBase) checkPiece(w bufferedPiece) error {
	now := t.counts.Documents
	switch {
	case w.length < 1:
		return fmt.Errorf("a piece of document %d is empty", w.doc)
	case w.arrived < 1 || w.arrived > now:
		return fmt.Errorf("a piece has document number %d of %d", w.arrived, now)
	case w.doc >= t.nextSeq || t.nextSeq-w.doc <= uint64(now-w.arrived):
		return fmt.Errorf("a piece is of document %d, too late for one with %d after it and sequences below %d", w.doc,
			now-w.arrived, t.nextSeq)
	case w.doc < uint64(w.arrived-1):
		return fmt.Errorf("a piece is of document %d, too early for number %d", w.doc, w.arrived)
	case t.isDue(w, 0):
		return fmt.Errorf("a piece of document %d is %d documents old, the bound is %d", w.doc, now-w.arrived, t.maxAge)
	}
	return nil
}

// checkOrder returns an error if the pieces cannot be those of different documents in order of arrival.
func checkOrder(pieces []bufferedPiece) error {
	for i := 1; i < len(pieces); i++ {
		a, b := pieces[i-1], pieces[i]
		if b.arrived <= a.arrived || b.doc < a.doc || b.doc-a.doc < uint64(b.arrived-a.arrived) {
			return fmt.Errorf("restore packer: a piece of document %d, number %d, waits behind document %d, number %d", b.doc,
				b.arrived, a.doc, a.arrived)
		}
	}
	return nil
}

// countRowTokens returns the number of tokens of an incomplete row of consecutive documents. Only its first piece
// may have a start above 0.
func countRowTokens(row []bufferedPiece, length int32) (used int32, err error) {
	if err := checkOrder(row); err != nil {
		return 0, err
	}
	for i, w := range row {
		if i > 0 && w.start > 0 {
			return 0, fmt.Errorf("restore packer: document %d starts at %d in the middle of a row", w.doc, w.start)
		}
		if w.length >= length-used {
			return 0, fmt.Errorf("restore packer: %d tokens or more wait for a row of %d", used+w.length, length)
		}
		used += w.length
	}
	return used, nil
}
