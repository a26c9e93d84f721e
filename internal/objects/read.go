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
	// maxRetryPause is the maximum pause between two attempts to reach a store.
	maxRetryPause = 30 * time.Second
	// idleTimeout is how long a connection may deliver no data before it is considered cut.
	idleTimeout = time.Minute
)

// Open reads an object from an offset on. After a cut connection, Read continues at the same offset. Its errors are
// final: the object is not the listed version, access is denied, or its store was unresponsive for longer than
// Options.Patience.
func (s *Stores) Open(ctx context.Context, o Object, from int64) (io.ReadCloser, error) {
	st, name, err := s.storeOf(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &reader{stores: s, store: st, name: name, object: o, offset: from, end: o.Size, ctx: ctx, cancel: cancel}, nil
}

// reader reads an object over as many connections as necessary.
type reader struct {
	stores      *Stores
	store       store
	name        string
	object      Object
	offset, end int64 // next byte, and end of the range
	ctx         context.Context
	cancel      context.CancelFunc
	body        io.ReadCloser
	idleTimer   *time.Timer // cuts the connection of body
	cancelBody  context.CancelFunc
	timedOut    *atomic.Bool // the alarm has cut it
}

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.offset >= r.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.end-r.offset)]
	var n int
	err := r.stores.retry(r.ctx, "read "+r.object.URL, func() (err error) {
		n, err = r.attempt(p)
		return err
	})
	r.offset += int64(n)
	return n, err
}

// attempt reads some bytes over the current connection, or a new one.
func (r *reader) attempt(p []byte) (n int, err error) {
	if r.body == nil {
		ctx, cut := context.WithCancel(r.ctx)
		body, err := r.store.get(ctx, r.name, r.object, r.offset, r.end)
		if err != nil {
			cut()
			return 0, err
		}
		quiet := new(atomic.Bool)
		r.body, r.cancelBody, r.timedOut = body, cut, quiet
		r.idleTimer = time.AfterFunc(idleTimeout, func() { quiet.Store(true); cut() })
	}
	n, err = r.body.Read(p)
	if err == nil {
		r.idleTimer.Reset(idleTimeout)
		return n, nil
	}
	quiet := r.timedOut.Load()
	r.closeBody()
	switch {
	case n > 0: // the next read returns the error
		return n, nil
	case r.ctx.Err() != nil:
		return 0, r.ctx.Err()
	case quiet:
		err = fmt.Errorf("no data arrived for %v", idleTimeout)
	case err == io.EOF:
		err = errors.New("the connection was cut")
	}
	var known *Error
	if errors.As(err, &known) {
		return 0, err
	}
	return 0, &Error{Kind: Unavailable, URL: r.object.URL, Err: fmt.Errorf("read at byte %d of %d: %w", r.offset,
		r.object.Size, err)}
}

func (r *reader) closeBody() {
	if r.body == nil {
		return
	}
	r.idleTimer.Stop()
	_ = r.body.Close() // read only
	r.cancelBody()
	r.body = nil
}

func (r *reader) Close() error {
	r.closeBody()
	r.cancel()
	return nil
}

// retry makes attempts until one succeeds, its error is permanent, or the store was unresponsive for too long.
func (s *Stores) retry(ctx context.Context, what string, attempt func() error) error {
	var pauses *backoff.ExponentialBackOff
	var began time.Time
	for {
		err := attempt()
		if err == nil || !IsTemporary(err) || ctx.Err() != nil {
			if pauses != nil && err == nil {
				s.reportRetry("")
			}
			return err
		}
		if pauses == nil {
			pauses, began = backoff.NewExponentialBackOff(), time.Now()
			pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = 20*time.Millisecond, 2, maxRetryPause
		}
		if time.Since(began) > s.options.RetryTimeout {
			return fmt.Errorf("%s: given up after %v: %w", what, s.options.RetryTimeout, err)
		}
		s.options.Log.Debug("repeating a request to a store", "action", what, "error", err)
		s.reportRetry(err.Error())
		pause := pauses.NextBackOff()
		if e := (*Error)(nil); errors.As(err, &e) && e.retryAfter > pause {
			pause = e.retryAfter
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Stores) reportRetry(problem string) {
	if s.options.OnRetry != nil {
		s.options.OnRetry(problem)
	}
}

const (
	// blockSize is the unit of fetching for random access, in bytes, and blocks is how many of them are kept.
	blockSize = 4 << 20
	maxBlocks = 8
)

// ReaderAt returns a reader for random access to an object, which columnar files need.
func (s *Stores) ReaderAt(ctx context.Context, o Object) io.ReaderAt {
	return &readerAt{stores: s, ctx: ctx, object: o, blockCache: map[int64][]byte{}}
}

type readerAt struct {
	stores *Stores
	ctx    context.Context
	object Object

	mu         sync.Mutex
	blockCache map[int64][]byte
	lru        []int64 // the blocks in kept, least recently used first
}

func (r *readerAt) ReadAt(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) {
		if off >= r.object.Size {
			return n, io.EOF
		}
		b, err := r.block(off / blockSize)
		if err != nil {
			return n, err
		}
		c := copy(p[n:], b[off%blockSize:])
		n, off = n+c, off+int64(c)
	}
	return n, nil
}

// block returns a block of the object. The caller holds mu.
func (r *readerAt) block(i int64) ([]byte, error) {
	for k, u := range r.lru {
		if u == i {
			r.lru = append(append(r.lru[:k:k], r.lru[k+1:]...), i)
			return r.blockCache[i], nil
		}
	}
	st, name, err := r.stores.storeOf(r.ctx, r.object)
	if err != nil {
		return nil, err
	}
	from, to := i*blockSize, min((i+1)*blockSize, r.object.Size)
	ctx, cancel := context.WithCancel(r.ctx)
	body := &reader{stores: r.stores, store: st, name: name, object: r.object, offset: from, end: to, ctx: ctx,
		cancel: cancel}
	data := make([]byte, to-from)
	_, err = io.ReadFull(body, data)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if len(r.lru) == maxBlocks {
		delete(r.blockCache, r.lru[0])
		r.lru = r.lru[1:]
	}
	r.blockCache[i], r.lru = data, append(r.lru, i)
	return data, nil
}
