package jsonrecord

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
)

// Lines reads the documents of a file with a JSON object per line. Blocks of lines are parsed concurrently.
type Lines struct {
	File    record.File
	Columns record.Columns
	Reader  *jsonvalue.LineReader
	// OnEntry is called before a document or an error of a line is yielded, with the offset after the line and its
	// number, from 1.
	OnEntry func(offset, line int64)
	// Ahead is how many blocks are parsed ahead, 0 for one per processor.
	Ahead int
}

// Documents yields a document per line. Blank lines are not documents. A line that is not a document is a
// *record.SkipError with its number. Each line may start with byte order marks, which concatenated files have. It
// returns whether the iteration continues. If it does not, ctx must end the pending read, for which Documents waits.
//
// Memory is bounded by one long line, and by a block of short lines with its documents per block ahead and two more.
func (l Lines) Documents(ctx context.Context, yield record.Yield) bool {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	blocks := make(chan *block, cmp.Or(l.Ahead, runtime.GOMAXPROCS(0)))
	buffers := make(chan []byte, cap(blocks)+1) // of parsed blocks
	running.Go(func() {
		defer close(blocks)
		for ctx.Err() == nil {
			b := &block{parsed: make(chan struct{})}
			var buffer []byte
			select {
			case buffer = <-buffers:
			default:
			}
			b.LineBlock, b.err = l.Reader.Next(buffer)
			if b.err == nil && !b.Shared {
				running.Go(func() { b.parse(l.Columns) })
			} else {
				b.parse(l.Columns)
			}
			select {
			case blocks <- b:
			case <-ctx.Done():
				return
			}
			if b.isLast() {
				return
			}
		}
	})
	for b := range blocks {
		<-b.parsed
		if b.isLast() {
			return b.err == io.EOF || l.fail(yield, b)
		}
		for _, e := range b.entries {
			if !l.yieldEntry(yield, e) {
				return false
			}
		}
		if !b.Shared {
			select {
			case buffers <- b.Data:
			default:
			}
		}
	}
	return l.File.Fail(yield, ctx.Err())
}

// fail yields the error that ends the reading, and returns false.
func (l Lines) fail(yield record.Yield, b *block) bool {
	return yield(record.Document{}, fmt.Errorf("read %s:%d: %w", l.File.Origin, b.Before+1, b.err)) && false
}

func (l Lines) yieldEntry(yield record.Yield, e entry) bool {
	if l.OnEntry != nil {
		l.OnEntry(e.end, e.line)
	}
	if e.err != nil {
		return l.File.Skip(yield, e.line, e.err)
	}
	return l.File.Emit(yield, e.document)
}

// block is a block of lines and its documents.
type block struct {
	jsonvalue.LineBlock
	err     error // of the reader
	entries []entry
	parsed  chan struct{} // closed when entries is complete
}

// entry is a document, or the error of a line that is not one.
type entry struct {
	document  record.Document
	err       error
	line, end int64 // number of the line, offset after it
}

// isLast reports that nothing can be read after the block.
func (b *block) isLast() bool {
	var long *jsonvalue.SizeError
	return b.err != nil && !errors.As(b.err, &long)
}

func (b *block) parse(cols record.Columns) {
	defer close(b.parsed)
	if b.err != nil {
		b.entries = []entry{{err: record.WithReason(record.TooLarge, b.err), line: b.Before + 1, end: b.End}}
		return
	}
	b.Lines(func(line jsonvalue.Line) {
		e := entry{line: line.Number, end: line.End}
		data := bytes.TrimLeft(line.Data, "\ufeff")
		switch {
		case line.Err != nil:
			e.err = record.WithReason(record.TooLarge, line.Err)
		case len(bytes.TrimSpace(data)) == 0:
			return
		default:
			e.document, e.err = cols.Parse(data)
		}
		b.entries = append(b.entries, e)
	})
}
