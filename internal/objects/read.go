package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// longestPause is the maximum pause between two attempts to reach a store.
	longestPause = 30 * time.Second
	// silence is how long a connection may deliver no data before it is considered cut.
	silence = time.Minute
)

// Open reads an object from an offset on. After a cut connection, Read continues at the same offset. Its errors are
// final: the object is not the listed version, access is denied, or its store was unresponsive for longer than
// Options.Patience.
func (s *Stores) Open(ctx context.Context, o Object, from int64) (io.ReadCloser, error) {
	st, name, err := s.of(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &reader{stores: s, store: st, name: name, object: o, at: from, to: o.Size, ctx: ctx, cancel: cancel}, nil
}

// reader reads an object over as many connections as necessary.
type reader struct {
	stores *Stores
	store  store
	name   string
	object Object
	at, to int64 // next byte, and end of the range
	ctx    context.Context
	cancel context.CancelFunc
	body   io.ReadCloser
	alarm  *time.Timer // cuts the connection of body
	cut    context.CancelFunc
	quiet  *atomic.Bool // the alarm has cut it
}

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.at >= r.to {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.to-r.at)]
	var n int
	err := r.stores.again(r.ctx, "read "+r.object.URL, func() (err error) {
		n, err = r.attempt(p)
		return err
	})
	r.at += int64(n)
	return n, err
}

// attempt reads some bytes over the current connection, or a new one.
func (r *reader) attempt(p []byte) (n int, err error) {
	if r.body == nil {
		ctx, cut := context.WithCancel(r.ctx)
		body, err := r.store.get(ctx, r.name, r.object, r.at, r.to)
		if err != nil {
			cut()
			return 0, err
		}
		quiet := new(atomic.Bool)
		r.body, r.cut, r.quiet = body, cut, quiet
		r.alarm = time.AfterFunc(silence, func() { quiet.Store(true); cut() })
	}
	n, err = r.body.Read(p)
	if err == nil {
		r.alarm.Reset(silence)
		return n, nil
	}
	quiet := r.quiet.Load()
	r.drop()
	switch {
	case n > 0: // the next read returns the error
		return n, nil
	case r.ctx.Err() != nil:
		return 0, r.ctx.Err()
	case quiet:
		err = fmt.Errorf("nothing came for %v", silence)
	case err == io.EOF:
		err = errors.New("the connection was cut")
	}
	var known *Error
	if errors.As(err, &known) {
		return 0, err
	}
	return 0, &Error{Kind: Down, URL: r.object.URL, Err: fmt.Errorf("read at byte %d of %d: %w", r.at, r.object.Size, err)}
}

func (r *reader) drop() {
	if r.body == nil {
		return
	}
	r.alarm.Stop()
	_ = r.body.Close() // read only
	r.cut()
	r.body = nil
}

func (r *reader) Close() error {
	r.drop()
	r.cancel()
	return nil
}

// again makes attempts until one succeeds, its error is permanent, or the store was unresponsive for too long.
func (s *Stores) again(ctx context.Context, what string, attempt func() error) error {
	var pauses *backoff.ExponentialBackOff
	var began time.Time
	for {
		err := attempt()
		if err == nil || !Passes(err) || ctx.Err() != nil {
			if pauses != nil && err == nil {
				s.trouble("")
			}
			return err
		}
		if pauses == nil {
			pauses, began = backoff.NewExponentialBackOff(), time.Now()
			pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = 20*time.Millisecond, 2, longestPause
		}
		if time.Since(began) > s.options.Patience {
			return fmt.Errorf("%s: given up after %v: %w", what, s.options.Patience, err)
		}
		s.options.Log.Debug("repeating a request to a store", "action", what, "error", err)
		s.trouble(err.Error())
		pause := pauses.NextBackOff()
		if e := (*Error)(nil); errors.As(err, &e) && e.wait > pause {
			pause = e.wait
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Stores) trouble(problem string) {
	if s.options.OnTrouble != nil {
		s.options.OnTrouble(problem)
	}
}

const (
	// block is the unit of fetching for random access, in bytes, and blocks is how many of them are kept.
	block  = 4 << 20
	blocks = 8
)

// At returns a reader for random access to an object, which columnar files need.
func (s *Stores) At(ctx context.Context, o Object) io.ReaderAt {
	return &readerAt{stores: s, ctx: ctx, object: o, kept: map[int64][]byte{}}
}

type readerAt struct {
	stores *Stores
	ctx    context.Context
	object Object

	mu   sync.Mutex
	kept map[int64][]byte
	used []int64 // the blocks in kept, least recently used first
}

func (r *readerAt) ReadAt(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) {
		if off >= r.object.Size {
			return n, io.EOF
		}
		b, err := r.block(off / block)
		if err != nil {
			return n, err
		}
		c := copy(p[n:], b[off%block:])
		n, off = n+c, off+int64(c)
	}
	return n, nil
}

// block returns a block of the object. The caller holds mu.
func (r *readerAt) block(i int64) ([]byte, error) {
	for k, u := range r.used {
		if u == i {
			r.used = append(append(r.used[:k:k], r.used[k+1:]...), i)
			return r.kept[i], nil
		}
	}
	st, name, err := r.stores.of(r.ctx, r.object)
	if err != nil {
		return nil, err
	}
	from, to := i*block, min((i+1)*block, r.object.Size)
	ctx, cancel := context.WithCancel(r.ctx)
	body := &reader{stores: r.stores, store: st, name: name, object: r.object, at: from, to: to, ctx: ctx, cancel: cancel}
	data := make([]byte, to-from)
	_, err = io.ReadFull(body, data)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if len(r.used) == blocks {
		delete(r.kept, r.used[0])
		r.used = r.used[1:]
	}
	r.kept[i], r.used = data, append(r.used, i)
	return data, nil
}
