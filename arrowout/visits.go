package arrowout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// visits tells the log of readers that come and go. One that is told why there is no step, or has read the steps that it asked for, is
// expected again at the step where it left: its return, and further departures of that kind, are told at level debug.
type visits struct {
	log *slog.Logger

	mu       sync.Mutex
	expected map[state.Place]uint64 // the step at which each is
}

// maxExpected bounds what is remembered of readers that may never come again.
const maxExpected = 1 << 16

func newVisits(log *slog.Logger) *visits {
	return &visits{log: log, expected: map[state.Place]uint64{}}
}

// visit is one stream of a reader.
type visit struct {
	visits    *visits
	ctx       context.Context // of the stream
	request   request
	began     time.Time
	step      atomic.Uint64 // that it has not been sent whole; a send that stands still ends behind the visit
	continues bool          // it was expected
	args      []any
}

// begin tells that a reader has come.
func (v *visits) begin(ctx context.Context, q request) *visit {
	place := place(q.Ticket)
	v.mu.Lock()
	step, known := v.expected[place]
	delete(v.expected, place)
	v.mu.Unlock()
	x := &visit{visits: v, ctx: ctx, request: q, began: time.Now(), continues: known && step == q.Step,
		args: []any{"rank", q.Rank, "world", q.World, "address", addressOf(ctx)}}
	x.step.Store(q.Step)
	if who := callerOf(ctx); who.Name != "" {
		x.args = append(x.args, "identity", who.Name)
	}
	if q.Job != "" {
		x.args = append(x.args, "job", q.Job)
	}
	x.tell(x.continues, "a reader has come", "from_step", q.Step)
	return x
}

// sent notes what it has.
func (x *visit) sent(b sending) {
	if b.Part == b.Parts-1 {
		x.step.Store(b.Step + 1)
	}
}

// end tells that it has gone, and why.
func (x *visit) end(err error) {
	q, v, step := x.request, x.visits, x.step.Load()
	why, again := "", false
	var typed *fault.Error
	switch {
	case err == nil && q.Steps > 0 && step == q.Step+q.Steps:
		why, again = "it has the steps that it asked for", true
	case err == nil:
		why = "the run has ended"
	case errors.As(err, &typed):
		why, again = fmt.Sprintf("%s (%s)", typed.Message, typed.Reason), Code(typed.Reason) == codes.Unavailable && typed.Reason != fault.ShuttingDown
	case x.ctx.Err() != nil || errors.Is(err, context.Canceled):
		why = "it has left, or its connection is lost"
	default:
		why = err.Error()
	}
	if again {
		v.mu.Lock()
		if len(v.expected) >= maxExpected {
			clear(v.expected)
		}
		v.expected[place(q.Ticket)] = step
		v.mu.Unlock()
	}
	x.tell(again && x.continues, "a reader has gone", "from_step", q.Step, "at_step", step, "after", time.Since(x.began).Round(time.Millisecond), "why", why)
}

func (x *visit) tell(quietly bool, message string, args ...any) {
	level := slog.LevelInfo
	if quietly {
		level = slog.LevelDebug
	}
	x.visits.log.Log(context.WithoutCancel(x.ctx), level, message, append(x.args[:len(x.args):len(x.args)], args...)...)
}
