package mds

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// samplesMost bounds the samples of a shard, whose places are held in memory.
	samplesMost = 1 << 25
	// shardMost is where places of 32 bits end.
	shardMost = math.MaxUint32
)

// Value is a column's value of a sample, as it is encoded. Data is good until the next sample, and nil where the value was not asked for or has more bytes
// than the limit.
type Value struct {
	Data []byte
	Size int64
}

// Reader reads a shard's samples in order. A shard is, little-endian,
//
//	samples n: uint32 | place of each, and the end: uint32 [n+1] | its configuration as JSON | samples
//
// and a sample the sizes of those of its values that vary, uint32 each, and all values.
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

// NewReader reads the beginning of a shard that is not compressed, or no more. want says by column which values are read, limit is how many bytes of one at most.
func NewReader(r io.Reader, s Shard, want []bool, limit int64) (*Reader, error) {
	m := &Reader{r: bufio.NewReaderSize(r, 1<<16), shard: s, want: want, limit: limit, values: make([]Value, len(s.Names))}
	n, err := m.number()
	if err != nil {
		return nil, err
	}
	if int64(n) != s.Samples {
		return nil, fmt.Errorf("it has %d samples, its index says %d: the shard is damaged, or of another index", n, s.Samples)
	}
	var first uint32
	for i := range int64(n) + 1 {
		place, err := m.number()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = place
		} else if place < m.places[i-1] {
			return nil, fmt.Errorf("sample %d ends before it begins: the shard is damaged", i-1)
		}
		m.places = append(m.places, place)
	}
	header := 4 * (int64(n) + 2)
	if int64(first) < header {
		return nil, errors.New("its first sample begins within its header: the shard is damaged")
	}
	return m, m.pass(int64(first) - header)
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

// Next returns the next sample's values, a place a column, or io.EOF.
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

// read reads a value in parts, so that no more memory is taken than there are bytes.
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
	// Values that were read before may lie in memory that has been left: it stays as it is.
	v.Data = m.buffer[from:len(m.buffer):len(m.buffer)]
	return nil
}

func (m *Reader) ended() error {
	switch _, err := m.r.Peek(1); err {
	case io.EOF:
		return io.EOF
	case nil:
		return errors.New("it goes on behind its last sample: the shard is damaged")
	default:
		return err
	}
}
