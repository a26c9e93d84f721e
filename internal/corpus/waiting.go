package corpus

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// waiting reads a pipe or standard input, whose writer may take its time. Another goroutine reads one part ahead, so that Read can end with ctx.
type waiting struct {
	ctx   context.Context
	parts chan part
	rest  []byte
	err   error
	close func() error
}

type part struct {
	data []byte
	err  error
}

// openWaiting reads stdin, or the pipe of a name where it is nil. A named pipe is waited for until somebody writes to it. The end of ctx
// ends the wait; only of standard input the last read stays until the process ends.
func openWaiting(ctx context.Context, stdin io.Reader, name string) (io.ReadCloser, error) {
	r, close := stdin, func() error { return nil }
	if r == nil {
		f, err := openNamedPipe(ctx, name)
		if err != nil {
			return nil, err
		}
		once := sync.OnceValue(f.Close)
		r, close = f, once
		context.AfterFunc(ctx, func() { _ = once() }) // ends the read that is under way; Close tells the error
	}
	w := &waiting{ctx: ctx, parts: make(chan part, 1), close: close}
	go w.run(r)
	return w, nil
}

func (w *waiting) run(r io.Reader) {
	for {
		buf := make([]byte, 64<<10)
		n, err := r.Read(buf)
		select {
		case w.parts <- part{buf[:n], err}:
		case <-w.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *waiting) Read(p []byte) (int, error) {
	for len(w.rest) == 0 && w.err == nil {
		select {
		case next := <-w.parts:
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

func (w *waiting) Close() error {
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
	// A writer that opens it for a moment lets the open above return.
	if fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		r := <-opened
		_ = syscall.Close(fd) // nothing was written
		if r.f != nil {
			return nil, errors.Join(ctx.Err(), r.f.Close())
		}
	}
	return nil, ctx.Err()
}
