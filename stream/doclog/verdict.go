package doclog

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

// A server that stands alone is believed at once. In a cluster no read tells the present: a server that is behind, or a
// leader that is none any more, answers as if it knew, for 15 s and more. There a hint (not found, ends earlier,
// nothing left) is looked into until one of these shows:
//
//	replaced   a stream of the name that was created later; or for doubtTime no answer told of ours
//	lost       the stream's first message lies behind it, or a message behind it came with it passed over: servers take messages in order
//	the end    each of several looks over settleTime found the same, behind a write that a majority took
//
// Until then it is an error that passes, and whoever meets it tries again.
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

// doubts are the answers, one after the other, that a stream is not the one that was opened.
type doubts struct {
	mu           sync.Mutex
	answers      int
	since, until time.Time // of the first and of the last of them
}

// stand notes one more such answer, and says whether there were enough of them for long enough.
func (d *doubts) stand() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	// between answers that lie far apart another one may have been missed
	if d.answers == 0 || now.Sub(d.until) > doubtTime {
		d.answers, d.since = 0, now
	}
	d.answers++
	d.until = now
	return d.answers >= doubtAnswers && now.Sub(d.since) >= doubtTime
}

// clear notes an answer to the contrary.
func (d *doubts) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = 0
}

// patience is how long info asks again: long enough for a verdict in a cluster.
func (l *Log) patience() time.Duration {
	if l.store.Clustered() {
		return doubtTime + settleTime
	}
	return 0
}

// askLimit bounds one question about the stream's state. A cluster drops it while it has no leader.
func (l *Log) askLimit() time.Duration {
	if l.store.Clustered() {
		return time.Second
	}
	return conn.AttemptLimit
}

// another judges an answer that tells of another stream of the name, created at a time, or (zero) of none.
func (l *Log) another(how string, created time.Time) error {
	if !l.store.Clustered() || created.After(l.created) || l.doubts.stand() {
		return l.replaced(how)
	}
	return l.down(fmt.Sprintf("ask for stream %s: %s", l.name, how), errDoubtful)
}

// covers says whether a reader that wants sequence next can go on: the stream must hold everything from there.
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

// reaches is what a stream's state says of a reader that wants sequence next.
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

// gap judges sequences that a consumer passed over, or does not bring although the stream goes on behind them.
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

// absent judges sequences of which servers said that the first is not there.
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
	// nothing is behind it: it is the end, or the server does not know better
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

// settle looks again and again, each time behind a write that a majority has taken, and returns the error that all
// looks found. One that finds nothing, or what passes, ends it with an error that passes.
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

// replaced is the error for a stream that is not the one that the run began with.
func (l *Log) replaced(how string) error {
	return &fault.Error{Reason: fault.StreamMismatch,
		Message: fmt.Sprintf("document stream %s (created %s) is gone: %s", l.name, l.created.UTC().Format(time.RFC3339Nano),
			how),
		Do: "restore it from its backup; to train on the documents that are there now, begin a new run (another run " +
			"name)",
		Facts: map[string]string{"stream": l.name}}
}

// lost is the error for sequences that the stream no longer holds.
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
