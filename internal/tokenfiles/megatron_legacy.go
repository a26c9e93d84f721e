package tokenfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// legacyMagic starts the index that Megatron adopted from fairseq, and writes for --dataset-impl lazy and cached.
const legacyMagic = "TNTIDX\x00\x00"

const (
	legacyVersion = 1
	legacyHeader  = int64(len(legacyMagic)) + 6*8
	fairseqHeader = legacyHeader - 8 // without the number of documents
)

// openLegacy reads the header of an index in the legacy format. In uint64 and int64, little-endian, it is
//
//	"TNTIDX\0\0" | version 1 | code of the type | bytes of an id | sequences n | dimensions s | ends of documents d
//	offset of each sequence's dimensions, and the end [n+1] | offset of its ids, in ids, and the end [n+1]
//	dimensions [s] | 0 and the sequence after each document [d]
//
// A text has one dimension per sequence, its length. fairseq's own files have neither d nor the last section.
func openLegacy(idx io.ReaderAt, idxSize int64, bin io.ReaderAt, binSize int64) (*Megatron, error) {
	m := &Megatron{legacy: true, bin: bin, binSize: binSize}
	header := make([]byte, legacyHeader)
	if n, err := idx.ReadAt(header, 0); n < len(header) {
		return nil, truncatedError("the index", err)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(header[len(legacyMagic)+8*i:]) }
	version, code, size, sequences, dimensions, documents := field(0), field(1), field(2), field(3), field(4), field(5)
	name, known := "", code <= math.MaxUint8
	if known {
		name, known = megatronTypes[byte(code)]
	}
	switch {
	case version != legacyVersion:
		return nil, fmt.Errorf("the index (TNTIDX) has version %d, want %d", version, legacyVersion)
	case !known:
		return nil, fmt.Errorf("the index (TNTIDX) has values of type %d, which are no token ids", code)
	case sequences > math.MaxInt64/64 || dimensions > math.MaxInt64/64:
		return nil, fmt.Errorf("the index (TNTIDX) is damaged: it names %d sequences and %d dimensions", sequences,
			dimensions)
	}
	var err error
	if m.Type, err = TypeOf(name); err != nil {
		return nil, err
	}
	m.Sequences = int64(sequences)
	sections := 16*(m.Sequences+1) + 8*int64(dimensions)
	switch {
	case size != uint64(m.Type.Size):
		return nil, fmt.Errorf("the index (TNTIDX) is damaged: its ids are %s of %d bytes each. Make it again with "+
			"Megatron's tools/preprocess_data.py", name, size)
	case idxSize == fairseqHeader+sections:
		return nil, errors.New("the index (TNTIDX) is in fairseq's format, which does not store where documents end: make " +
			"it again with Megatron's tools/preprocess_data.py")
	case documents > math.MaxInt64/64:
		return nil, fmt.Errorf("the index (TNTIDX) is damaged: it names %d documents", documents)
	case documents == 0:
		return nil, errors.New("the index (TNTIDX) is damaged: it has no beginning of documents")
	case dimensions != sequences:
		return nil, fmt.Errorf("the index (TNTIDX) has %d dimensions of %d sequences: only text is read, which has one each",
			dimensions, sequences)
	}
	m.Documents = int64(documents) - 1
	if whole := legacyHeader + sections + 8*int64(documents); idxSize != whole {
		return nil, fmt.Errorf(
			"the index (TNTIDX) is damaged or cut off: it has %d bytes, %d sequences and %d documents take %d", idxSize,
			m.Sequences, m.Documents, whole)
	}
	at := legacyHeader
	section := func(numbers int64) section {
		at += 8 * numbers
		return newSection(idx, at-8*numbers, at)
	}
	m.shapes, m.offsets = section(m.Sequences+1), section(m.Sequences+1)
	m.lengths, m.ends = section(m.Sequences), section(int64(documents))
	return m, m.openIDs(idx, at)
}

// nextLegacySequence is Megatron.next for the legacy format.
func (m *Megatron) nextLegacySequence() (length, place int64, err error) {
	var shape int64
	for _, x := range []struct {
		to   *int64
		from io.Reader
	}{{&shape, m.shapes}, {&place, m.offsets}, {&length, m.lengths}} {
		if *x.to, err = readInt64(x.from); err != nil {
			return 0, 0, truncatedError("the index", err)
		}
	}
	if shape != m.sequence {
		return 0, 0, fmt.Errorf("sequence %d has not one dimension: only text is read", m.sequence)
	}
	if place < 0 || place > m.binSize {
		return length, -1, nil // the offset in bytes may exceed 64 bits
	}
	return length, place * int64(m.Type.Size), nil
}
