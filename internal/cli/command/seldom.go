package command

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// seldomEvery is how often the same is logged at most.
const seldomEvery = 10 * time.Second

// Seldom leaves out a log record when the same message with the same error was logged a moment ago.
type Seldom struct {
	slog.Handler
	mu   sync.Mutex
	said map[string]time.Time
}

// NewSeldom returns a Seldom in front of h.
func NewSeldom(h slog.Handler) *Seldom { return &Seldom{Handler: h, said: map[string]time.Time{}} }

func (s *Seldom) Handle(ctx context.Context, r slog.Record) error {
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			key += "\x00" + a.Value.String()
		}
		return true
	})
	s.mu.Lock()
	last, again := s.said[key]
	left := again && r.Time.Sub(last) < seldomEvery
	if !left {
		s.said[key] = r.Time
	}
	s.mu.Unlock()
	if left {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}
