package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
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
// Options.RetryTimeout.
func (s *Stores) Open(ctx context.Context, o Object, from int64) (io.ReadCloser, error) {
	return s.openRange(ctx, o, from, o.Size)
}

// OpenHead is Open from the beginning, for a caller that may need only the first bytes. Only head bytes are requested
// until Read has returned them.
func (s *Stores) OpenHead(ctx context.Context, o Object, head int64) (io.ReadCloser, error) {
	r, err := s.openRange(ctx, o, 0, o.Size)
	if err != nil {
		return nil, err
	}
	r.head = head
	return r, nil
}

// openRange reads the bytes [from, to) of an object.
func (s *Stores) openRange(ctx context.Context, o Object, from, to int64) (*reader, error) {
	st, name, err := s.storeOf(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &reader{stores: s, store: st, name: name, object: o, offset: from, end: to, ctx: ctx, cancel: cancel}, nil
}

// reader reads an object over as many connections as necessary.
type reader struct {
	stores      *Stores
	store       store
	name        string
	object      Object
	offset, end int64 // next byte, and end of the range
	head        int64 // end of the first request; 0: end
	skip        int64 // bytes of body before offset
	onlyRanges  bool  // errNoRanges if the server ignores ranges, instead of the skipping of bytes
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
	end := r.end
	if r.offset < r.head {
		end = min(end, r.head)
	} else if r.offset == r.head {
		r.closeBody()
	}
	p = p[:min(int64(len(p)), end-r.offset)]
	var n int
	err := r.stores.retry(r.ctx, "read "+r.object.URL, func() (err error) {
		n, err = r.attempt(p)
		return err
	})
	r.offset += int64(n)
	return n, err
}

// errNoRanges reports that a server ignores ranges.
var errNoRanges = errors.New("the server ignores the requested range of bytes")

// attempt reads some bytes over the current connection, or a new one.
func (r *reader) attempt(p []byte) (n int, err error) {
	if r.body == nil {
		if err := r.request(); err != nil {
			return 0, err
		}
	}
	for r.skip > 0 && err == nil {
		var skipped int64
		skipped, err = io.CopyN(io.Discard, r.body, min(r.skip, 1<<20))
		r.skip -= skipped
		r.idleTimer.Reset(idleTimeout)
	}
	if err == nil {
		n, err = r.body.Read(p)
	}
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

// request requests the rest of the range, or of its head.
func (r *reader) request() error {
	end := r.end
	if r.offset < r.head {
		end = min(end, r.head)
	}
	ctx, cut := context.WithCancel(r.ctx)
	body, err := r.store.get(ctx, r.name, r.object, r.offset, end)
	if err == nil && body.isWhole && r.offset > 0 && r.onlyRanges {
		err = errors.Join(errNoRanges, body.Close())
	}
	if err != nil {
		cut()
		return atByte(err, r.offset)
	}
	r.skip = 0
	if body.isWhole { // its rest needs no other request
		r.skip, r.head = r.offset, 0
	}
	quiet := new(atomic.Bool)
	r.body, r.cancelBody, r.timedOut = body, cut, quiet
	r.idleTimer = time.AfterFunc(idleTimeout, func() { quiet.Store(true); cut() })
	return nil
}

// atByte adds the offset of a request to an error about the content of an object.
func atByte(err error, offset int64) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != Changed && e.Kind != Invalid {
		return err
	}
	located := *e
	located.Err = fmt.Errorf("at byte %d: %w", offset, e.Err)
	return &located
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
