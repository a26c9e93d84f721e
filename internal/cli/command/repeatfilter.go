package command

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// repeatInterval is the minimum time between two equal records.
const repeatInterval = 10 * time.Second

// RepeatFilter is a handler that drops a record when the same message with the same error was logged within
// repeatInterval.
type RepeatFilter struct {
	slog.Handler
	mu     sync.Mutex
	logged map[string]time.Time
}

// NewRepeatFilter returns a RepeatFilter in front of h.
func NewRepeatFilter(h slog.Handler) *RepeatFilter {
	return &RepeatFilter{Handler: h, logged: map[string]time.Time{}}
}

// Handle implements slog.Handler.
func (s *RepeatFilter) Handle(ctx context.Context, r slog.Record) error {
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			key += "\x00" + a.Value.String()
		}
		return true
	})
	s.mu.Lock()
	last, again := s.logged[key]
	left := again && r.Time.Sub(last) < repeatInterval
	if !left {
		s.logged[key] = r.Time
	}
	s.mu.Unlock()
	if left {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}
