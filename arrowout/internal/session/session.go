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
	ReaderInfo
	registry  *Registry
	endStream func(error) // ends the stream
	done      chan struct{}

	// Guarded by the mutex of the registry:
	memory       *account
	startedAt    time.Time
	started      bool
	resumed      bool          // the reader was expected to return at this step
	nextStep     uint64        // the step after the last one that was sent completely
	waitingSince time.Time     // when the wait for its next step started; zero while it does not wait
	stats        *readerStats  // what the reader was sent recently, by this stream and earlier ones
	reported     chan struct{} // closed by the client's next report
}

// Start begins the stream. The stream takes its place as a rank of its job and ends the stream that had the place. It
// returns a *fault.Error if another identity has the place.
func (s *Session) Start(ctx context.Context) error { return s.start(ctx, time.Now()) }

func (s *Session) start(ctx context.Context, now time.Time) error {
	r := s.registry
	continues := false
	r.mu.Lock()
	before, err := r.takeRank(s)
	if err == nil {
		step, known := r.expectedReturns[s.RankID]
		delete(r.expectedReturns, s.RankID)
		continues = known && step == s.Step
		s.startedAt, s.started, s.resumed = now, true, continues
		r.restoreStats(s, now)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if before != nil {
		before.endStream(s.replacedError())
	}
	s.logEvent(ctx, continues, "reader joined", event.ReaderJoined, "from_step", s.Step)
	return nil
}

// Close closes the stream, which has ended with err or nil. ctx is the context of its call.
func (s *Session) Close(ctx context.Context, err error) {
	next, begun, continues := s.deregister(time.Now())
	if !begun {
		return
	}
	why, returns := s.endCause(ctx, err, next)
	if returns {
		s.registry.expectReturn(s, next)
	}
	s.logEvent(ctx, returns && continues, "reader left", event.ReaderLeft, "from_step", s.Step, "at_step", next,
		"after", time.Since(s.startedAt).Round(time.Millisecond), "why", why)
}

// deregister removes the stream from the registry.
func (s *Session) deregister(now time.Time) (next uint64, begun, continues bool) {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.started {
		r.keepStats(s, now)
	}
	r.removeSession(s)
	if r.rankHolders[s.RankID] == s {
		delete(r.rankHolders, s.RankID)
	}
	close(s.done)
	return s.nextStep, s.started, s.resumed
}

// endCause returns why a stream has ended before step next, and whether its reader is expected to return.
func (s *Session) endCause(ctx context.Context, err error, next uint64) (why string, returns bool) {
	var typed *fault.Error
	switch {
	case err == nil && s.Steps > 0 && next == s.Step+s.Steps:
		return "it received all requested steps", true
	case err == nil:
		return "the run has ended", false
	case errors.As(err, &typed):
		returns = s.registry.isRetryable(typed.Reason) && typed.Reason != fault.ShuttingDown
		return fmt.Sprintf("%s (%s)", typed.Message, typed.Reason), returns
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return "it closed the stream, or lost its connection", false
	}
	return err.Error(), false
}

// logEvent logs the start or the end of the stream, at level debug if it was expected.
func (s *Session) logEvent(ctx context.Context, expected bool, message string, e slog.Attr, args ...any) {
	level := slog.LevelInfo
	if expected {
		level = slog.LevelDebug
	}
	about := []any{e, "rank", s.RankID.Rank, "world", s.RankID.World, "address", s.Address}
	if s.Identity.Name != "" {
		about = append(about, "identity", s.Identity.Name)
	}
	if s.RankID.Job != planrecord.DefaultJob {
		about = append(about, "job", s.RankID.Job)
	}
	s.registry.log.Log(context.WithoutCancel(ctx), level, message, append(about, args...)...)
}

// Acquire waits until the stream may hold that many additional bytes, and returns their charge. If ctx ends first, it
// returns the cause.
func (s *Session) Acquire(ctx context.Context, bytes int64) (*Charge, error) {
	return s.memory.acquire(ctx, bytes)
}

// RecordWaitStart records that the reader waits for its next step.
func (s *Session) RecordWaitStart(now time.Time) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.waitingSince = now
}

// RecordStep records that the reader has received its step, or an error instead, after a wait.
func (s *Session) RecordStep(now time.Time, waited time.Duration) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.waitingSince = time.Time{}
	s.stats.waits.add(now, waited)
}

// RecordBatch records a record batch of a step that gRPC has taken; last reports whether it is the step's last one. A
// blocked send may return after the end of its stream.
func (s *Session) RecordBatch(now time.Time, step uint64, last bool, bytes int) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if last {
		s.nextStep = step + 1
	}
	s.stats.bytes.add(now, bytes)
}
