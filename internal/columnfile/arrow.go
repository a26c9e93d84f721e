package columnfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// ArrowFileMagic is at the beginning and at the end of an Arrow IPC file.
const ArrowFileMagic = "ARROW1"

// continuation starts every message since Arrow 0.15.
const continuation = 0xffffffff

// IsArrow reports whether data starts like an Arrow IPC file or stream.
func IsArrow(head []byte) bool {
	if bytes.HasPrefix(head, []byte(ArrowFileMagic)) {
		return true
	}
	if len(head) < 8 || binary.LittleEndian.Uint32(head) != continuation {
		return false
	}
	n := binary.LittleEndian.Uint32(head[4:])
	return n > 0 && n <= maxPart
}

// ArrowReader reads the batches of an Arrow IPC stream, or file, one after the other. It reads a file as the stream
// that the file contains, so pipes and compressed files can be read too. It reads concatenated streams as one if their
// columns are equal.
type ArrowReader struct {
	ipc   *ipc.Reader
	file  bool
	r     *bufio.Reader
	limit int64
	ended bool
}

// NewArrowReader reads the schema. r should be buffered.
func NewArrowReader(r io.Reader) (*ArrowReader, error) { return NewArrowReaderLimit(r, maxPart) }

// NewArrowReaderLimit is NewArrowReader with a limit on the memory of each batch, in bytes, in addition to the size of
// its data.
func NewArrowReaderLimit(r io.Reader, limit int64) (*ArrowReader, error) {
	const smallest = 16 // for peeking; larger reads bypass the buffer
	a := &ArrowReader{r: bufio.NewReaderSize(r, smallest), limit: limit}
	head, err := a.r.Peek(8)
	if err != nil {
		return nil, arrowError(unexpectedEOF(err))
	}
	if a.file = bytes.HasPrefix(head, []byte(ArrowFileMagic)); a.file {
		_, _ = a.r.Discard(len(head)) // already peeked
	}
	if err := a.open(); err != nil {
		return nil, arrowError(err)
	}
	return a, nil
}

// open reads the schema of a stream.
func (a *ArrowReader) open() error {
	return Guard(func() (err error) {
		mem := newBoundedAllocator(min(minMemory, a.limit))
		a.ipc, err = ipc.NewReaderFromMessageReader(&messageReader{r: a.r, mem: mem, limit: a.limit, file: a.file},
			ipc.WithAllocator(mem))
		return err
	})
}

func arrowError(err error) error { return fmt.Errorf("not readable Arrow IPC data: %w", err) }

// Schema returns the schema of the columns.
func (a *ArrowReader) Schema() *arrow.Schema { return a.ipc.Schema() }

// Next returns the next batch, valid until the next call, or io.EOF.
func (a *ArrowReader) Next() (batch arrow.Record, err error) {
	for batch == nil && err == nil {
		if a.ended {
			return nil, io.EOF
		}
		err = Guard(func() error {
			if a.ipc.Next() {
				batch = a.ipc.Record()
				return nil
			}
			if err := a.ipc.Err(); err != nil {
				return err
			}
			return io.EOF
		})
		if err == io.EOF {
			err = a.nextStream()
		}
	}
	if err != nil && err != io.EOF {
		err = arrowError(err)
	}
	return batch, err
}

// nextStream continues after the end of a stream, with the stream that follows. It returns io.EOF if none follows.
func (a *ArrowReader) nextStream() error {
	if a.file {
		a.ended = true
		return a.checkFileEnd()
	}
	if _, err := a.r.Peek(1); err != nil {
		a.ended = err == io.EOF
		return err
	}
	before := a.Schema()
	if err := a.open(); err != nil {
		return fmt.Errorf("the data after its end is not a stream: %w", err)
	}
	if !a.Schema().Equal(before) {
		return errors.New("the stream after its end has other columns: split the file")
	}
	return nil
}

// checkFileEnd returns io.EOF if the file ends correctly: with the footer, its length and the magic number.
func (a *ArrowReader) checkFileEnd() error {
	const length = 4
	tail, size := make([]byte, 0, 4096), int64(0)
	for {
		n, err := a.r.Read(tail[len(tail):cap(tail)])
		tail, size = tail[:len(tail)+n], size+int64(n)
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF {
			break
		}
		if keep := length + len(ArrowFileMagic); len(tail) > cap(tail)/2 {
			tail = append(tail[:0], tail[len(tail)-keep:]...)
		}
	}
	tail, found := bytes.CutSuffix(tail, []byte(ArrowFileMagic))
	if !found || len(tail) < length {
		return damagedError("the file is cut off: %w", io.ErrUnexpectedEOF)
	}
	// In a file without an end-of-stream mark, four bytes of its footer have been read as the length of a message.
	footer := int64(binary.LittleEndian.Uint32(tail[len(tail)-length:]))
	if extra := size - int64(length+len(ArrowFileMagic)) - footer; extra != 0 && extra != -length {
		return fmt.Errorf(
			"%d bytes between its last batch and its footer: if several Arrow files follow each other here, split them", extra)
	}
	return io.EOF
}

// messageReader is an ipc.MessageReader that validates messages before they are decoded.
type messageReader struct {
	r       io.Reader
	mem     *boundedAllocator // its limit may grow with the largest message
	limit   int64             // maximum of mem.limit
	file    bool
	hasMark bool // messages start with the continuation mark
	current *ipc.Message
}

func (m *messageReader) Retain()  {}
func (m *messageReader) Release() {}

// Message returns the next message. It returns io.EOF at the end-of-stream mark, or if the data ends between two
// messages.
func (m *messageReader) Message() (*ipc.Message, error) {
	n, err := m.readLength()
	if err != nil {
		return nil, err
	}
	meta, err := readUpTo(m.r, n)
	if err != nil {
		return nil, fmt.Errorf("a message is cut off: %w", err)
	}
	length, err := checkMessage(meta)
	if err != nil {
		return nil, damagedError("a message: %w", err)
	}
	if length > maxPart {
		return nil, damagedError("a message has %d bytes, want at most %d", length, maxPart)
	}
	body, err := readUpTo(m.r, length)
	if err != nil {
		return nil, fmt.Errorf("a message is cut off: %w", err)
	}
	m.mem.limit = max(m.mem.limit, min(memoryLimit(length), m.limit))
	if m.current != nil {
		m.current.Release()
	}
	m.current = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	return m.current, nil
}

// readLength reads the length of a message's metadata.
func (m *messageReader) readLength() (int64, error) {
	var b [4]byte
	if _, err := io.ReadFull(m.r, b[:]); err != nil {
		if err == io.EOF {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("a message is cut off: %w", err)
	}
	n := binary.LittleEndian.Uint32(b[:])
	if n != continuation && n != 0 && m.hasMark {
		if m.file {
			return 0, io.EOF // the footer, without an end-of-stream mark before it
		}
		return 0, errors.New("a message has no continuation marker")
	}
	if n == continuation {
		m.hasMark = true
		if _, err := io.ReadFull(m.r, b[:]); err != nil {
			return 0, fmt.Errorf("a message is cut off: %w", unexpectedEOF(err))
		}
		n = binary.LittleEndian.Uint32(b[:])
	}
	switch {
	case n == 0:
		return 0, io.EOF
	case n > maxPart:
		return 0, errors.New("a message's length is out of range")
	}
	return int64(n), nil
}
