package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
)

// Session is one open stream of a reader.
type Session struct {
	Reader
	registry *Registry
	end      func(error) // ends the stream
	left     chan struct{}

	// Guarded by the mutex of the registry:
	memory    *hold
	began     time.Time
	begun     bool
	continues bool          // the reader was expected to return at this step
	next      uint64        // the step after the last one that was sent completely
	waiting   time.Time     // when the wait for its next step started; zero while it does not wait
	recent    *recent       // what the reader was sent recently, by this stream and earlier ones
	reported  chan struct{} // closed by the client's next report
}

// Begin begins the stream. The stream takes its place as a rank of its job and ends the stream that had the place. It
// returns a *fault.Error if another identity has the place.
func (s *Session) Begin(ctx context.Context) error { return s.begin(ctx, time.Now()) }

func (s *Session) begin(ctx context.Context, now time.Time) error {
	r := s.registry
	continues := false
	r.mu.Lock()
	before, err := r.takePlace(s)
	if err == nil {
		step, known := r.expected[s.Place]
		delete(r.expected, s.Place)
		continues = known && step == s.Step
		s.began, s.begun, s.continues = now, true, continues
		r.remember(s, now)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if before != nil {
		before.end(s.replaced())
	}
	s.tell(ctx, continues, "reader joined", event.ReaderJoined, "from_step", s.Step)
	return nil
}

// Close closes the stream, which has ended with err or nil. ctx is the context of its call.
func (s *Session) Close(ctx context.Context, err error) {
	next, begun, continues := s.leave(time.Now())
	if !begun {
		return
	}
	why, returns := s.explain(ctx, err, next)
	if returns {
		s.registry.expect(s, next)
	}
	s.tell(ctx, returns && continues, "reader left", event.ReaderLeft, "from_step", s.Step, "at_step", next,
		"after", time.Since(s.began).Round(time.Millisecond), "why", why)
}

// leave removes the stream from the registry.
func (s *Session) leave(now time.Time) (next uint64, begun, continues bool) {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.begun {
		r.rest(s, now)
	}
	r.exit(s)
	if r.holders[s.Place] == s {
		delete(r.holders, s.Place)
	}
	close(s.left)
	return s.next, s.begun, s.continues
}

// explain returns why a stream has ended before step next, and whether its reader is expected to return.
func (s *Session) explain(ctx context.Context, err error, next uint64) (why string, returns bool) {
	var typed *fault.Error
	switch {
	case err == nil && s.Steps > 0 && next == s.Step+s.Steps:
		return "it has the steps that it asked for", true
	case err == nil:
		return "the run has ended", false
	case errors.As(err, &typed):
		returns = s.registry.passing(typed.Reason) && typed.Reason != fault.ShuttingDown
		return fmt.Sprintf("%s (%s)", typed.Message, typed.Reason), returns
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return "it has left, or its connection is lost", false
	}
	return err.Error(), false
}

// tell logs the start or the end of the stream, at level debug if it was expected.
func (s *Session) tell(ctx context.Context, expected bool, message string, e slog.Attr, args ...any) {
	level := slog.LevelInfo
	if expected {
		level = slog.LevelDebug
	}
	about := []any{e, "rank", s.Place.Rank, "world", s.Place.World, "address", s.Address}
	if s.Identity.Name != "" {
		about = append(about, "identity", s.Identity.Name)
	}
	if s.Place.Job != planrecord.DefaultKeeper {
		about = append(about, "job", s.Place.Job)
	}
	s.registry.log.Log(context.WithoutCancel(ctx), level, message, append(about, args...)...)
}

// Take waits until the stream may hold that many additional bytes, and returns their charge. If ctx ends first, it
// returns the cause.
func (s *Session) Take(ctx context.Context, bytes int64) (*Charge, error) {
	return s.memory.take(ctx, bytes)
}

// Asks records that the reader waits for its next step.
func (s *Session) Asks(now time.Time) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.waiting = now
}

// Got records that the reader has received its step, or an error instead, after a wait.
func (s *Session) Got(now time.Time, waited time.Duration) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.waiting = time.Time{}
	s.recent.waits.add(now, waited)
}

// Sent records a record batch of a step that gRPC has taken; last reports whether it is the step's last one. A
// blocked send may return after the end of its stream.
func (s *Session) Sent(now time.Time, step uint64, last bool, bytes int) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if last {
		s.next = step + 1
	}
	s.recent.bytes.add(now, bytes)
}
