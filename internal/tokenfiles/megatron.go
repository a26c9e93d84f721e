package tokenfiles

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// MegatronMagic starts a Megatron index (.idx).
const MegatronMagic = "MMIDIDX\x00\x00"

// megatronTypes are the codes of types in an index.
var megatronTypes = map[byte]string{1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}

const (
	megatronVersion = 1
	megatronHeader  = int64(len(MegatronMagic)) + 8 + 1 + 8 + 8
)

// IsMegatron reports whether data starts like a Megatron index, in the present or the legacy format.
func IsMegatron(head []byte) bool {
	return bytes.HasPrefix(head, []byte(MegatronMagic)) || bytes.HasPrefix(head, []byte(legacyMagic))
}

// Megatron reads the documents of a pair of files: the ids (.bin), and an index (.idx) of sequences. A document
// consists of one or more sequences. An index is
//
//	"MMIDIDX\0\0" | version 1: uint64 | code of the type: uint8 | sequences n: uint64 | ends of documents d: uint64
//	lengths in ids: int32 [n] | offsets in .bin in bytes: int64 [n] | 0 and the sequence after each document: int64 [d]
//
// all of it little-endian. In a file with several modes of data, uint8 [n] follows.
type Megatron struct {
	Type                 Type
	Sequences, Documents int64

	legacy                 bool    // the format of legacyMagic
	shapes                 section // legacy: offset of each sequence's shape
	lengths, offsets, ends section
	bin                    io.ReaderAt
	binSize                int64 // size of bin
	sequence               int64
	ids                    *bufio.Reader
	offset                 int64 // offset of ids in bin
}

// section is a part of an index with numbers of the same size.
type section struct {
	*bufio.Reader
	of *io.SectionReader
}

// newSection returns the bytes [from, to) of an index.
func newSection(idx io.ReaderAt, from, to int64) section {
	of := io.NewSectionReader(idx, from, to-from)
	return section{bufio.NewReaderSize(of, 1<<16), of}
}

// seek continues at an offset in the section.
func (s section) seek(offset int64) {
	_, _ = s.of.Seek(offset, io.SeekStart) // not negative
	s.Reset(s.of)
}

// OpenMegatron reads the header of an index.
func OpenMegatron(idx io.ReaderAt, idxSize int64, bin io.ReaderAt, binSize int64) (*Megatron, error) {
	m := &Megatron{bin: bin, binSize: binSize}
	header := make([]byte, megatronHeader)
	n, err := idx.ReadAt(header, 0)
	switch {
	case bytes.HasPrefix(header[:n], []byte(legacyMagic)):
		return openLegacy(idx, idxSize, bin, binSize)
	case n >= len(MegatronMagic) && !IsMegatron(header):
		return nil, errors.New("the index does not begin as one of Megatron's does")
	case n < len(header):
		return nil, truncatedError("the index", err)
	}
	rest := header[len(MegatronMagic):]
	switch version := binary.LittleEndian.Uint64(rest); version {
	case megatronVersion:
	case megatronVersion << 56:
		return nil, errors.New("the index is big-endian, which Megatron's are not: write it on a little-endian machine")
	default:
		return nil, fmt.Errorf("the index has version %d, want %d", version, megatronVersion)
	}
	name, ok := megatronTypes[rest[8]]
	if !ok {
		return nil, fmt.Errorf("the index has values of type %d, which are no token ids", rest[8])
	}
	if m.Type, err = TypeOf(name); err != nil {
		return nil, err
	}
	sequences, documents := binary.LittleEndian.Uint64(rest[9:]), binary.LittleEndian.Uint64(rest[17:])
	if sequences > math.MaxInt64/16 || documents > math.MaxInt64/16 {
		return nil, fmt.Errorf("the index is damaged: it names %d sequences and %d documents", sequences, documents)
	}
	m.Sequences, m.Documents = int64(sequences), int64(documents)-1
	lengths := megatronHeader
	places := lengths + 4*m.Sequences
	ends := places + 8*m.Sequences
	whole := ends + 8*int64(documents)
	switch {
	case documents == 0:
		return nil, errors.New("the index is damaged: it has no beginning of documents")
	case idxSize < whole:
		return nil, fmt.Errorf("the index is cut off: it has %d bytes, %d sequences and %d documents take %d", idxSize,
			m.Sequences, m.Documents, whole)
	case idxSize == whole+m.Sequences && m.Sequences > 0:
		return nil, errors.New("the index has modes of sequences: data of several kinds is not read, only text")
	case idxSize > whole:
		return nil, fmt.Errorf("the index is damaged: it has %d bytes, %d sequences and %d documents take %d", idxSize,
			m.Sequences, m.Documents, whole)
	}
	section := func(from, to int64) section { return newSection(idx, from, to) }
	m.lengths, m.offsets, m.ends = section(lengths, places), section(places, ends), section(ends, whole)
	return m, m.openIDs(idx, whole)
}

// openIDs checks that the documents cover all sequences, and starts with the first.
func (m *Megatron) openIDs(idx io.ReaderAt, whole int64) error {
	first, err := readInt64(m.ends)
	if err != nil {
		return err
	}
	var last [8]byte
	if _, err := idx.ReadAt(last[:], whole-8); err != nil {
		return truncatedError("the index", err)
	}
	if end := int64(binary.LittleEndian.Uint64(last[:])); first != 0 || end != m.Sequences {
		return fmt.Errorf("the index is damaged: its documents are sequences %d to %d of %d", first, end, m.Sequences)
	}
	m.ids = bufio.NewReaderSize(io.NewSectionReader(m.bin, 0, m.binSize), 1<<16)
	return nil
}

// Offset returns how many bytes of .bin have been read, if its sequences are stored in order.
func (m *Megatron) Offset() int64 { return m.offset }

// Skip makes Next return the document after n documents, the first time it is called. It does not read these.
func (m *Megatron) Skip(n int64) error {
	if n <= 0 {
		return nil
	}
	if n > m.Documents {
		return fmt.Errorf("the index has %d documents, and %d were read before: it is another one", m.Documents, n)
	}
	m.ends.seek(8 * n)
	sequence, err := readInt64(m.ends)
	if err != nil {
		return truncatedError("the index", err)
	}
	if sequence < 0 || sequence > m.Sequences {
		return fmt.Errorf("the index is damaged: document %d ends with sequence %d of %d", n-1, sequence, m.Sequences)
	}
	m.sequence = sequence
	if m.legacy {
		m.shapes.seek(8 * sequence)
		m.lengths.seek(8 * sequence)
	} else {
		m.lengths.seek(4 * sequence)
	}
	m.offsets.seek(8 * sequence)
	return nil
}

// Next appends the next document's ids to dst, little-endian int32, or returns io.EOF. A *DocumentError is a document
// of more than limit bytes or with an unrepresentable id. The next call continues after it.
func (m *Megatron) Next(dst []byte, limit int64) ([]byte, error) {
	end, err := readInt64(m.ends)
	if err == io.EOF {
		return dst, io.EOF
	}
	if err != nil {
		return dst, err
	}
	if end < m.sequence || end > m.Sequences {
		return dst, fmt.Errorf("the index is damaged: a document is sequences %d to %d of %d", m.sequence, end, m.Sequences)
	}
	var tokens int64
	var wrong error
	for ; m.sequence < end; m.sequence++ {
		length, place, err := m.nextSequence()
		if err != nil {
			return dst, err
		}
		if tokens += length; 4*tokens > limit || wrong != nil {
			continue
		}
		if dst, err = m.readIDs(dst, place, length); err != nil {
			var bad *DocumentError
			if !errors.As(err, &bad) {
				return dst, err
			}
			wrong = err
		}
	}
	switch {
	case wrong != nil:
		return dst, &DocumentError{Tokens: tokens, Err: wrong}
	case 4*tokens > limit:
		return dst, tooLargeError(tokens, limit)
	}
	return dst, nil
}

// nextSequence returns a sequence's length in ids and its offset in bin.
func (m *Megatron) nextSequence() (length, place int64, err error) {
	size := int64(m.Type.Size)
	if m.legacy {
		if length, place, err = m.nextLegacySequence(); err != nil {
			return 0, 0, err
		}
	} else {
		var raw [4]byte
		if _, err := io.ReadFull(m.lengths, raw[:]); err != nil {
			return 0, 0, truncatedError("the index", err)
		}
		length = int64(int32(binary.LittleEndian.Uint32(raw[:])))
		if place, err = readInt64(m.offsets); err != nil {
			return 0, 0, truncatedError("the index", err)
		}
	}
	if length < 0 || place < 0 || place > m.binSize || length > (m.binSize-place)/size {
		return 0, 0, fmt.Errorf("sequence %d is %d ids from byte %d on, and the file of ids has %d bytes: it is cut off, "+
			"or the index is damaged",
			m.sequence, length, place, m.binSize)
	}
	return length, place, nil
}

// readIDs appends ids of bin.
func (m *Megatron) readIDs(dst []byte, place, length int64) ([]byte, error) {
	if place != m.offset {
		m.ids.Reset(io.NewSectionReader(m.bin, place, m.binSize-place))
		m.offset = place
	}
	for left := length * int64(m.Type.Size); left > 0; {
		raw, err := m.ids.Peek(int(min(left, 1<<15))) // a multiple of every size
		if err != nil {
			return dst, truncatedError("the file of ids", err)
		}
		if dst, err = m.Type.Append(dst, raw); err != nil {
			return dst, &DocumentError{Err: err}
		}
		_, _ = m.ids.Discard(len(raw)) // already peeked
		m.offset += int64(len(raw))
		left -= int64(len(raw))
	}
	return dst, nil
}

// readInt64 reads an int64, or returns io.EOF at the end.
func readInt64(r io.Reader) (int64, error) {
	var raw [8]byte
	_, err := io.ReadFull(r, raw[:])
	return int64(binary.LittleEndian.Uint64(raw[:])), err
}
