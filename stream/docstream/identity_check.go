package docstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/fault"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// The response of a single server is conclusive. In a cluster no read is guaranteed to be current. A lagging server,
// or a leader that has lost its leadership, responds with stale state for 15 s and more. A suspicion (not found, ends
// earlier, nothing left) is therefore checked until one of these holds:
//
//	replaced   a stream of this name was created later, or for mismatchTime no response reported ours
//	lost       the stream's first message is after it, or a later message is stored without it; servers store in order
//	the end    several looks over recheckTime found the same, each after a write that a majority has acknowledged
//
// Until then the error is transient, and callers retry.
const (
	mismatchTime  = 5 * time.Second
	minMismatches = 4
	recheckTime   = 3 * time.Second
	minRechecks   = 4
)

var (
	errNoLeader      = conn.AsTransient(errors.New("the server that answers knows of no leader of the stream"))
	errServerLagging = conn.AsTransient(errors.New("a server is behind the others"))
	errUnconfirmed   = conn.AsTransient(errors.New("a server that lags behind the others may report this"))
)

// identityCheck counts consecutive responses that the stream is not the one that was opened.
type identityCheck struct {
	mu          sync.Mutex
	mismatches  int
	first, last time.Time // of the first and of the last response
}

// addMismatch records another such response. It reports whether enough of them arrived over a long enough time.
func (d *identityCheck) addMismatch() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	// between responses that are far apart, a contrary one may have been missed
	if d.mismatches == 0 || now.Sub(d.last) > mismatchTime {
		d.mismatches, d.first = 0, now
	}
	d.mismatches++
	d.last = now
	return d.mismatches >= minMismatches && now.Sub(d.first) >= mismatchTime
}

// reset records a contrary response.
func (d *identityCheck) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mismatches = 0
}

// stateTimeout returns how long info retries, which is long enough for a verdict in a cluster.
func (l *Log) stateTimeout() time.Duration {
	if l.store.Clustered() {
		return mismatchTime + recheckTime
	}
	return 0
}

// stateRequestTimeout bounds one request for the stream's state. A cluster drops it while it has no leader.
func (l *Log) stateRequestTimeout() time.Duration {
	if l.store.Clustered() {
		return time.Second
	}
	return conn.AttemptTimeout
}

// checkReplaced returns the error for a response that reports another stream of the name, created at a time, or (zero)
// none.
func (l *Log) checkReplaced(how string, created time.Time) error {
	if !l.store.Clustered() || created.After(l.created) || l.identity.addMismatch() {
		return l.replacedError(how)
	}
	return l.downError(fmt.Sprintf("ask for stream %s: %s", l.name, how), errUnconfirmed)
}

// checkCovers checks that a reader can continue at sequence next. The stream must hold everything from there on.
func (l *Log) checkCovers(ctx context.Context, info *jetstream.StreamInfo, next uint64) error {
	err := l.checkRange(info, next)
	if err == nil || info.State.FirstSeq > next || !l.store.Clustered() {
		return err
	}
	return l.recheck(ctx, func(ctx context.Context) error {
		info, err := l.requestState(ctx)
		if err != nil {
			return err
		}
		return l.checkRange(info, next)
	})
}

// checkRange checks a stream's state for a reader that continues at sequence next.
func (l *Log) checkRange(info *jetstream.StreamInfo, next uint64) error {
	if first := info.State.FirstSeq; first > next {
		return l.lostError(next, first-1)
	}
	if last := info.State.LastSeq; last+1 < next {
		return &fault.Error{Reason: fault.DocumentLost,
			Message: fmt.Sprintf("read stream %s: it ends at sequence %d, documents up to %d were read from it before", l.name,
				last, next-1),
			Advice: "restore the stream that the run began with, or start a new run",
			Facts:  map[string]string{"stream": l.name}}
	}
	return nil
}

// checkGap returns the error for sequences that a consumer skipped, or does not deliver although the stream continues
// after them.
func (l *Log) checkGap(ctx context.Context, from, to uint64) error {
	if !l.store.Clustered() {
		return l.lostError(from, to)
	}
	_, err := l.getMessage(ctx, from)
	switch {
	case err == nil:
		return fmt.Errorf("%w: a consumer does not bring document %d", errServerLagging, from)
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return l.checkAbsent(ctx, from, to)
	}
	return err
}

// checkAbsent returns the error for sequences of which servers reported the first as missing.
func (l *Log) checkAbsent(ctx context.Context, from, to uint64) error {
	if !l.store.Clustered() {
		return l.lostError(from, to)
	}
	following, err := messages.NextSequence(ctx, l.store.Client, l.name, from)
	switch {
	case err != nil:
		return err
	case following > from:
		return l.lostError(from, to)
	case following == from:
		return fmt.Errorf("%w: another one has document %d", errServerLagging, from)
	}
	// No message follows. Either the stream ends here, or the server's state is stale.
	return l.recheck(ctx, func(ctx context.Context) error {
		info, err := l.requestState(ctx)
		if err != nil {
			return err
		}
		if info.State.FirstSeq > from {
			return l.lostError(from, to)
		}
		if _, err = l.getMessage(ctx, from); errors.Is(err, jetstream.ErrMsgNotFound) {
			return l.lostError(from, to)
		}
		return err
	})
}

// recheck repeats look, each time after a write that a majority has acknowledged, and returns the error that all looks
// returned. A look without an error, or with a transient one, ends it with a transient error.
func (l *Log) recheck(ctx context.Context, look func(ctx context.Context) error) error {
	began := time.Now()
	for looks := 1; ; looks++ {
		if err := messages.Barrier(ctx, l.store.Client, l.stream); err != nil {
			return l.downError("write to stream "+l.name, conn.AsTransient(err))
		}
		err := look(ctx)
		switch {
		case err == nil:
			return errServerLagging
		case conn.IsTransient(err), looks >= minRechecks && time.Since(began) >= recheckTime:
			return err
		}
		select {
		case <-time.After(recheckTime / (minRechecks - 1)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replacedError returns the error for a stream that is not the one that the run began with.
func (l *Log) replacedError(how string) error {
	return &fault.Error{Reason: fault.StreamMismatch,
		Message: fmt.Sprintf("document stream %s (created %s) is gone: %s", l.name, l.created.UTC().Format(time.RFC3339Nano),
			how),
		Advice: "restore it from its backup; to train on the present documents, begin a new run (another run name)",
		Facts:  map[string]string{"stream": l.name}}
}

// lostError returns the error for sequences that the stream no longer holds.
func (l *Log) lostError(from, to uint64) error {
	which := fmt.Sprintf("sequences %d to %d are", from, to)
	if from == to {
		which = fmt.Sprintf("sequence %d is", from)
	}
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("read stream %s: %s no longer there: deleted or purged", l.name, which),
		Advice:  "a run needs every document from its floor on: restore them, or start a new run",
		Facts: map[string]string{"stream": l.name, "first_missing": strconv.FormatUint(from, 10),
			"last_missing": strconv.FormatUint(to, 10)}}
}
