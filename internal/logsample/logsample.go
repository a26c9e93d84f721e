// Package logsample bounds log lines that callers can cause.
package logsample

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// linesPerSecond is how many lines of one kind are logged per second, beyond a burst.
	linesPerSecond = 1
	burst          = 20
)

// Sampler admits some of many equal lines. Its methods may be called from several goroutines.
type Sampler struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	omitted  map[string]int
}

// New returns a Sampler that has admitted nothing yet.
func New() *Sampler { return &Sampler{limiters: map[string]*rate.Limiter{}, omitted: map[string]int{}} }

// Allow reports whether a line is logged, and how many of its kind were omitted since the last one. Kinds must be
// constants of the program, never text of a caller, because each is kept in memory.
func (s *Sampler) Allow(kind string) (ok bool, omitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limiters[kind]
	if l == nil {
		l = rate.NewLimiter(linesPerSecond, burst)
		s.limiters[kind] = l
	}
	if !l.AllowN(time.Now(), 1) {
		s.omitted[kind]++
		return false, 0
	}
	omitted = s.omitted[kind]
	s.omitted[kind] = 0
	return true, omitted
}

// Log logs a line if its kind, which is its message, is admitted.
func (s *Sampler) Log(log *slog.Logger, level slog.Level, message string, args ...any) {
	ok, omitted := s.Allow(message)
	if !ok {
		return
	}
	if omitted > 0 {
		args = append(args, "more_of_the_kind", omitted)
	}
	log.Log(context.Background(), level, message, args...)
}
