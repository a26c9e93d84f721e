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
//	replaced   a stream of this name was created later, or for doubtTime no response reported ours
//	lost       the stream's first message is after it, or a later message is stored without it; servers store in order
//	the end    several looks over settleTime found the same, each after a write that a majority has acknowledged
//
// Until then the error is transient, and callers retry.
const (
	doubtTime    = 5 * time.Second
	doubtAnswers = 4
	settleTime   = 3 * time.Second
	settleLooks  = 4
)

var (
	errNoLeader = conn.Passing(errors.New("the server that answers knows of no leader of the stream"))
	errBehind   = conn.Passing(errors.New("a server is behind the others"))
	errDoubtful = conn.Passing(errors.New("a server that is behind the others may say so"))
)

// doubts counts consecutive responses that the stream is not the one that was opened.
type doubts struct {
	mu           sync.Mutex
	answers      int
	since, until time.Time // of the first and of the last response
}

// stand records another such response. It reports whether enough of them arrived over a long enough time.
func (d *doubts) stand() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	// between responses that are far apart, a contrary one may have been missed
	if d.answers == 0 || now.Sub(d.until) > doubtTime {
		d.answers, d.since = 0, now
	}
	d.answers++
	d.until = now
	return d.answers >= doubtAnswers && now.Sub(d.since) >= doubtTime
}

// clear records a contrary response.
func (d *doubts) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = 0
}

// patience returns how long info retries, which is long enough for a verdict in a cluster.
func (l *Log) patience() time.Duration {
	if l.store.Clustered() {
		return doubtTime + settleTime
	}
	return 0
}

// askLimit bounds one request for the stream's state. A cluster drops it while it has no leader.
func (l *Log) askLimit() time.Duration {
	if l.store.Clustered() {
		return time.Second
	}
	return conn.AttemptLimit
}

// another returns the error for a response that reports another stream of the name, created at a time, or (zero)
// none.
func (l *Log) another(how string, created time.Time) error {
	if !l.store.Clustered() || created.After(l.created) || l.doubts.stand() {
		return l.replaced(how)
	}
	return l.down(fmt.Sprintf("ask for stream %s: %s", l.name, how), errDoubtful)
}

// covers checks that a reader can continue at sequence next. The stream must hold everything from there on.
func (l *Log) covers(ctx context.Context, info *jetstream.StreamInfo, next uint64) error {
	err := l.reaches(info, next)
	if err == nil || info.State.FirstSeq > next || !l.store.Clustered() {
		return err
	}
	return l.settle(ctx, func(ctx context.Context) error {
		info, err := l.ask(ctx)
		if err != nil {
			return err
		}
		return l.reaches(info, next)
	})
}

// reaches checks a stream's state for a reader that continues at sequence next.
func (l *Log) reaches(info *jetstream.StreamInfo, next uint64) error {
	if first := info.State.FirstSeq; first > next {
		return l.lost(next, first-1)
	}
	if last := info.State.LastSeq; last+1 < next {
		return &fault.Error{Reason: fault.DocumentLost,
			Message: fmt.Sprintf("read stream %s: it ends at sequence %d, documents up to %d were read from it before", l.name,
				last, next-1),
			Do:    "restore the stream that the run began with, or start a new run",
			Facts: map[string]string{"stream": l.name}}
	}
	return nil
}

// gap returns the error for sequences that a consumer skipped, or does not deliver although the stream continues
// after them.
func (l *Log) gap(ctx context.Context, from, to uint64) error {
	if !l.store.Clustered() {
		return l.lost(from, to)
	}
	_, err := l.get(ctx, from)
	switch {
	case err == nil:
		return fmt.Errorf("%w: a consumer does not bring document %d", errBehind, from)
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return l.absent(ctx, from, to)
	}
	return err
}

// absent returns the error for sequences of which servers reported the first as missing.
func (l *Log) absent(ctx context.Context, from, to uint64) error {
	if !l.store.Clustered() {
		return l.lost(from, to)
	}
	following, err := messages.Following(ctx, l.store.Client, l.name, from)
	switch {
	case err != nil:
		return err
	case following > from:
		return l.lost(from, to)
	case following == from:
		return fmt.Errorf("%w: another one has document %d", errBehind, from)
	}
	// No message follows. Either the stream ends here, or the server's state is stale.
	return l.settle(ctx, func(ctx context.Context) error {
		info, err := l.ask(ctx)
		if err != nil {
			return err
		}
		if info.State.FirstSeq > from {
			return l.lost(from, to)
		}
		if _, err = l.get(ctx, from); errors.Is(err, jetstream.ErrMsgNotFound) {
			return l.lost(from, to)
		}
		return err
	})
}

// settle repeats look, each time after a write that a majority has acknowledged, and returns the error that all looks
// returned. A look without an error, or with a transient one, ends it with a transient error.
func (l *Log) settle(ctx context.Context, look func(ctx context.Context) error) error {
	began := time.Now()
	for looks := 1; ; looks++ {
		if err := messages.Barrier(ctx, l.store.Client, l.stream); err != nil {
			return l.down("write to stream "+l.name, conn.Passing(err))
		}
		err := look(ctx)
		switch {
		case err == nil:
			return errBehind
		case conn.Transient(err), looks >= settleLooks && time.Since(began) >= settleTime:
			return err
		}
		select {
		case <-time.After(settleTime / (settleLooks - 1)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replaced returns the error for a stream that is not the one that the run began with.
func (l *Log) replaced(how string) error {
	return &fault.Error{Reason: fault.StreamMismatch,
		Message: fmt.Sprintf("document stream %s (created %s) is gone: %s", l.name, l.created.UTC().Format(time.RFC3339Nano),
			how),
		Do: "restore it from its backup; to train on the documents that are there now, begin a new run (another run " +
			"name)",
		Facts: map[string]string{"stream": l.name}}
}

// lost returns the error for sequences that the stream no longer holds.
func (l *Log) lost(from, to uint64) error {
	which := fmt.Sprintf("sequences %d to %d are", from, to)
	if from == to {
		which = fmt.Sprintf("sequence %d is", from)
	}
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("read stream %s: %s no longer there: deleted or purged", l.name, which),
		Do:      "a run needs every document from its floor on: restore them, or start a new run",
		Facts: map[string]string{"stream": l.name, "first_missing": strconv.FormatUint(from, 10),
			"last_missing": strconv.FormatUint(to, 10)}}
}
