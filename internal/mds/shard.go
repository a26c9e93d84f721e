package mds

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// samplesMost bounds the samples of a shard, whose offsets are held in memory.
	samplesMost = 1 << 25
	// shardMost is the maximum of 32-bit offsets.
	shardMost = math.MaxUint32
)

// Value is the encoded value of a column in a sample. Data is valid until the next sample. It is nil if the value was
// not requested or has more bytes than the limit.
type Value struct {
	Data []byte
	Size int64
}

// Reader reads a shard's samples in order. A shard is, little-endian,
//
//	samples n: uint32 | offset of each, and the end: uint32 [n+1] | its configuration as JSON | samples
//
// A sample has the sizes of its values of variable size, uint32 each, and then all values.
type Reader struct {
	r      *bufio.Reader
	shard  Shard
	want   []bool
	limit  int64
	places []uint32
	next   int
	buffer []byte
	values []Value
}

// NewReader reads the header of an uncompressed or decompressed shard. want selects the columns to read, and limit
// bounds a value in bytes.
func NewReader(r io.Reader, s Shard, want []bool, limit int64) (*Reader, error) {
	m := &Reader{r: bufio.NewReaderSize(r, 1<<16), shard: s}
	n, err := m.number()
	if err != nil {
		return nil, err
	}
	if int64(n) != s.Samples {
		return nil, fmt.Errorf("it has %d samples, its index states %d: the shard is damaged, or belongs to another index",
			n, s.Samples)
	}
	config, err := m.header(n)
	if err != nil {
		return nil, err
	}
	m.Want(want, limit)
	return m, m.pass(config)
}

// OpenShard reads the header of a shard without an index entry. The configuration in the header lists its columns.
// Want then selects which of them are read.
func OpenShard(r io.Reader) (*Reader, error) {
	m := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	n, err := m.number()
	if err != nil {
		return nil, err
	}
	if n > samplesMost {
		return nil, fmt.Errorf("it has %d samples: at most %d are read from one shard", n, samplesMost)
	}
	size, err := m.header(n)
	if err != nil {
		return nil, err
	}
	if size > configMost {
		return nil, fmt.Errorf("its configuration has %d bytes: the shard is damaged", size)
	}
	config := make([]byte, size)
	if _, err := io.ReadFull(m.r, config); err != nil {
		return nil, cutOff(err)
	}
	if json.Unmarshal(config, &m.shard) != nil || len(m.shard.Names) == 0 {
		return nil, ErrNoColumns
	}
	m.shard.Compression, m.shard.Zip, m.shard.Samples, m.shard.Raw = nil, nil, int64(n), File{Name: "."}
	return m, m.shard.check()
}

// ErrNoColumns is the error of a shard that only its index describes.
var ErrNoColumns = errors.New("its header does not name its columns, and there is no index.json that does: put the " +
	"index.json of its dataset into its folder")

// configMost bounds a shard's configuration, which has some dozens of bytes per column.
const configMost = 1 << 20

// LooksLikeShard reports whether a file named .mds starts like a shard, unlike other files with that extension.
func LooksLikeShard(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	number := func(at int64) int64 { return int64(binary.LittleEndian.Uint32(head[at:])) }
	n, first := number(0), number(4)
	header := 4 * (n + 2)
	if n > samplesMost || first < header || first-header > configMost {
		return false
	}
	for at := int64(8); at < header && at+4 <= int64(len(head)); at += 4 {
		if number(at) < number(at-4) {
			return false
		}
	}
	return first == header || header >= int64(len(head)) || head[header] == '{'
}

// Shard returns the description of the shard.
func (m *Reader) Shard() Shard { return m.shard }

// Want selects the columns to read, and bounds a value in bytes.
func (m *Reader) Want(want []bool, limit int64) {
	m.want, m.limit, m.values = want, limit, make([]Value, len(m.shard.Names))
}

// Skip makes Next return the sample after n samples, which at reads from its offset in the shard on.
func (m *Reader) Skip(n int64, at func(offset int64) io.Reader) error {
	if n < 0 || n >= int64(len(m.places)) {
		return fmt.Errorf("it has %d samples, and %d were read before: it is another shard", len(m.places)-1, n)
	}
	m.next = int(n)
	m.r.Reset(at(int64(m.places[n])))
	return nil
}

// header reads the offsets of n samples and returns the size in bytes of the configuration that follows.
func (m *Reader) header(n uint32) (config int64, _ error) {
	var first uint32
	for i := range int64(n) + 1 {
		place, err := m.number()
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = place
		} else if place < m.places[i-1] {
			return 0, fmt.Errorf("sample %d ends before it begins: the shard is damaged", i-1)
		}
		m.places = append(m.places, place)
	}
	header := 4 * (int64(n) + 2)
	if int64(first) < header {
		return 0, errors.New("its first sample begins within its header: the shard is damaged")
	}
	return int64(first) - header, nil
}

func (m *Reader) number() (uint32, error) {
	var raw [4]byte
	if _, err := io.ReadFull(m.r, raw[:]); err != nil {
		return 0, cutOff(err)
	}
	return binary.LittleEndian.Uint32(raw[:]), nil
}

func (m *Reader) pass(n int64) error {
	if _, err := io.CopyN(io.Discard, m.r, n); err != nil {
		return cutOff(err)
	}
	return nil
}

func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the shard is cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Next returns the next sample's values, one per column, or io.EOF.
func (m *Reader) Next() ([]Value, error) {
	if m.next+1 >= len(m.places) {
		return nil, m.ended()
	}
	left := int64(m.places[m.next+1]) - int64(m.places[m.next])
	for i, size := range m.shard.Sizes {
		m.values[i] = Value{}
		if size != nil {
			m.values[i].Size = *size
			continue
		}
		n, err := m.number()
		if err != nil {
			return nil, err
		}
		m.values[i].Size = int64(n)
		left -= 4
	}
	for _, v := range m.values {
		left -= v.Size
	}
	if left != 0 {
		return nil, fmt.Errorf("sample %d: its values do not take the bytes that it has: the shard is damaged", m.next)
	}
	m.buffer = m.buffer[:0]
	for i := range m.values {
		v := &m.values[i]
		if !m.want[i] || v.Size > m.limit {
			if err := m.pass(v.Size); err != nil {
				return nil, err
			}
			continue
		}
		if err := m.read(v); err != nil {
			return nil, err
		}
	}
	m.next++
	return m.values, nil
}

// read reads a value in parts, so that memory is allocated only for bytes that exist.
func (m *Reader) read(v *Value) error {
	from := len(m.buffer)
	for left := v.Size; left > 0; {
		n := min(left, 1<<20)
		at := len(m.buffer)
		m.buffer = append(m.buffer, make([]byte, n)...)
		if _, err := io.ReadFull(m.r, m.buffer[at:]); err != nil {
			return cutOff(err)
		}
		left -= n
	}
	// Earlier values may refer to a previous, smaller buffer, which stays valid.
	v.Data = m.buffer[from:len(m.buffer):len(m.buffer)]
	return nil
}

func (m *Reader) ended() error {
	switch _, err := m.r.Peek(1); err {
	case io.EOF:
		return io.EOF
	case nil:
		return errors.New("it has data after its last sample: the shard is damaged")
	default:
		return err
	}
}
