// Package pipe reads named pipes and standard input, whose writers may be slow, until a context ends.
package pipe

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// reader reads a pipe or standard input. Another goroutine reads one part ahead, so that Read can end with ctx.
type reader struct {
	ctx    context.Context
	chunks chan chunk
	rest   []byte
	err    error
	close  func() error
}

type chunk struct {
	data []byte
	err  error
}

// Open reads stdin, or the named pipe name if stdin is nil. Opening a named pipe waits for its writer. The end of ctx
// ends the wait with ctx's error. A pending read of standard input continues until the process ends.
func Open(ctx context.Context, stdin io.Reader, name string) (io.ReadCloser, error) {
	r, close := stdin, func() error { return nil }
	if r == nil {
		f, err := openNamedPipe(ctx, name)
		if err != nil {
			return nil, err
		}
		once := sync.OnceValue(f.Close)
		r, close = f, once
		context.AfterFunc(ctx, func() { _ = once() }) // ends the pending read; Close returns the error
	}
	w := &reader{ctx: ctx, chunks: make(chan chunk, 1), close: close}
	go w.readAhead(r)
	return w, nil
}

func (w *reader) readAhead(r io.Reader) {
	for {
		buf := make([]byte, 64<<10)
		n, err := r.Read(buf)
		select {
		case w.chunks <- chunk{buf[:n], err}:
		case <-w.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *reader) Read(p []byte) (int, error) {
	for len(w.rest) == 0 && w.err == nil {
		select {
		case next := <-w.chunks:
			w.rest, w.err = next.data, next.err
		case <-w.ctx.Done():
			w.err = w.ctx.Err()
		}
	}
	if len(w.rest) == 0 {
		return 0, w.err
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

func (w *reader) Close() error {
	if w.ctx.Err() != nil {
		return nil // closed with ctx
	}
	return w.close()
}

// openNamedPipe opens a pipe, which waits for a writer.
func openNamedPipe(ctx context.Context, name string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
	}
	// Opening the pipe briefly for writing makes the open above return.
	if fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		r := <-opened
		_ = syscall.Close(fd) // nothing was written
		if r.f != nil {
			return nil, errors.Join(ctx.Err(), r.f.Close())
		}
	}
	return nil, ctx.Err()
}
