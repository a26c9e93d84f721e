// Package jsonlines turns JSON lines of text into JSON lines of token ids, or back.
package jsonlines

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// block is a block of lines: input lines, then output lines with the error that ended them.
type block struct {
	first int // number of the first line, from 1
	lines [][]byte
	done  chan struct{}
	out   []byte
	err   error
}

const (
	blockLines = 256
	blockBytes = 1 << 20
)

// Convert converts lines on all processors, each with its own converter, and writes them in order. Errors name the
// input by its label, and the line; the lines before it are written. Memory is bounded by a few blocks per processor,
// each of blockBytes and its last line.
func Convert(ctx context.Context, label string, in io.Reader, out io.Writer, newConverter func() Converter) error {
	workers := runtime.GOMAXPROCS(0)
	p := pipeline{work: make(chan *block), order: make(chan *block, 2*workers)}
	group, ctx := errgroup.WithContext(ctx)
	read := make(chan error, 1)
	go func() { read <- p.read(ctx, in) }() // nothing waits for it, because the read cannot be interrupted
	group.Go(func() error {
		select {
		case err := <-read:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for range workers {
		group.Go(func() error { return p.convert(ctx, label, newConverter()) })
	}
	group.Go(func() error { return p.write(ctx, out) })
	return group.Wait()
}

// pipeline passes every block to a worker, and in order to the writer.
type pipeline struct{ work, order chan *block }

func (p pipeline) read(ctx context.Context, in io.Reader) error {
	defer close(p.order)
	defer close(p.work)
	return readBlocks(in, func(b *block) error {
		for _, c := range []chan *block{p.order, p.work} {
			select {
			case c <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

func (p pipeline) convert(ctx context.Context, label string, convert Converter) error {
	for {
		select {
		case b, ok := <-p.work:
			if !ok {
				return nil
			}
			b.convert(label, convert)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p pipeline) write(ctx context.Context, out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	for {
		b, err := p.next(ctx)
		if b == nil {
			return err
		}
		if _, err := w.Write(b.out); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		if b.err != nil {
			return errors.Join(b.err, w.Flush())
		}
		if len(p.order) == 0 { // the input may pause here
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
	}
}

// next waits until the next block in order is converted; it returns nil after the last.
func (p pipeline) next(ctx context.Context) (*block, error) {
	select {
	case b, more := <-p.order:
		if !more {
			return nil, nil
		}
		select {
		case <-b.done:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readBlocks splits the input into blocks of whole lines. It does not hold lines back if it may have to wait for the
// next one.
func readBlocks(in io.Reader, send func(*block) error) error {
	r := bufio.NewReaderSize(in, blockBytes)
	b, size := &block{first: 1, done: make(chan struct{})}, 0
	for {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read input: %w", err)
		}
		last := err == io.EOF
		if len(line) > 0 {
			b.lines = append(b.lines, line)
			size += len(line)
		}
		full := last || size >= blockBytes || len(b.lines) >= blockLines
		if !full {
			behind, _ := r.Peek(r.Buffered())
			full = bytes.IndexByte(behind, '\n') < 0
		}
		if len(b.lines) > 0 && full {
			next := b.first + len(b.lines)
			if err := send(b); err != nil { // from here on the workers own b
				return err
			}
			b, size = &block{first: next, done: make(chan struct{})}, 0
		}
		if last {
			return nil
		}
	}
}

func (b *block) convert(label string, convert Converter) {
	defer close(b.done)
	for i, line := range b.lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if b.out, b.err = convert(b.out, line); b.err != nil {
			b.err = fmt.Errorf("%s, line %d: %w", label, b.first+i, b.err)
			return
		}
	}
	b.lines = nil
}
