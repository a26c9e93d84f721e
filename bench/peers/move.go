package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"syscall"
	"unsafe"

	"loaderd/packonline"
)

// batch is the number of rows that are assembled together: the default step.
const batch = 64

// packAlone packs lengths and reads every span, as a planner does.
func packAlone(config packonline.Config, docs []int32) error {
	p, err := packonline.New(config)
	if err != nil {
		return err
	}
	var rows packonline.Rows
	pieces := 0
	take := func() {
		for i := range rows.Len() {
			_, row, _ := rows.Row(i)
			pieces += len(row)
		}
		rows.Reset()
	}
	for i, n := range docs {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &rows)
		if rows.Len() > 0 {
			take()
		}
	}
	p.Flush(&rows)
	take()
	return nil
}

// mover packs documents and copies their tokens into rows, as the loader does, with the segment ids that the Flight
// server adds.
type mover struct {
	docs     []int32
	starts   []int // offset of each document in tokens
	tokens   []int32
	row      int
	filled   int // rows of the batch
	ids      []int32
	segments []int32
	out      *bufio.Writer // output of the rows, or nil
}

func newMover(docs []int32, row int) (*mover, error) {
	m := &mover{docs: docs, row: row, starts: make([]int, len(docs)+1)}
	for i, n := range docs {
		m.starts[i+1] = m.starts[i] + int(n)
	}
	// The documents are outside the heap, so that they do not affect how often the garbage collector runs.
	b, err := syscall.Mmap(-1, 0, 4*m.starts[len(docs)], syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	m.tokens = unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
	for i := range m.tokens {
		m.tokens[i] = int32(i + 1)
	}
	return m, nil
}

func (m *mover) pack(config packonline.Config) error {
	p, err := packonline.New(config)
	if err != nil {
		return err
	}
	m.begin()
	var rows packonline.Rows
	for i, n := range m.docs {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &rows)
		if rows.Len() > 0 {
			if err := m.move(&rows, i+1); err != nil {
				return err
			}
		}
	}
	p.Flush(&rows)
	return m.move(&rows, len(m.docs))
}

// begin allocates a new batch, because the previous one belongs to its reader.
func (m *mover) begin() {
	m.ids, m.segments, m.filled = make([]int32, batch*m.row), make([]int32, batch*m.row), 0
}

// move appends rows to the batch. arrived is the number of documents that have arrived.
func (m *mover) move(rows *packonline.Rows, arrived int) error {
	for i := range rows.Len() {
		_, pieces, _ := rows.Row(i)
		ids, segments := m.ids[m.filled*m.row:][:m.row], m.segments[m.filled*m.row:][:m.row]
		at := 0
		for s, piece := range pieces {
			from := m.starts[piece.Doc] + int(piece.Start)
			n := copy(ids[at:], m.tokens[from:from+int(piece.Length)])
			for j := range segments[at : at+n] {
				segments[at+j] = int32(s + 1)
			}
			at += n
		}
		if m.out != nil {
			if err := errors.Join(binary.Write(m.out, binary.NativeEndian, int64(arrived)),
				binary.Write(m.out, binary.NativeEndian, ids)); err != nil {
				return err
			}
		}
		if m.filled++; m.filled == batch {
			m.begin()
		}
	}
	rows.Reset()
	return nil
}
