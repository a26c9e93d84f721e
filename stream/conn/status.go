package conn

import (
	"context"
	"sync"
	"time"
)

// Status is the state of the connection to JetStream.
type Status struct {
	Connected bool      // the server is reachable and, if embedded, can write its streams
	Since     time.Time // when Connected last changed
	Err       error     // the last error; nil if none occurred since the last connect
}

// status is the connection's state according to the client library's callbacks.
type status struct {
	mu     sync.Mutex
	now    Status
	up     context.Context
	lose   context.CancelFunc // ends up
	closed bool               // no connection follows, even if the client library still reports one
}

func newStatus() *status {
	s := &status{}
	s.up, s.lose = context.WithCancel(context.Background())
	return s
}

// connection returns a context that ends when the current connection is lost. No response to a request over that
// connection arrives afterwards.
func (s *status) connection() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

// The client library calls lost and restored.

func (s *status) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
	s.setLocked(false, err)
}

func (s *status) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose() // the client may reconnect without reporting a loss
	if s.closed {
		return
	}
	s.up, s.lose = context.WithCancel(context.Background())
	s.setLocked(true, nil)
}

// close ends the current connection for good.
func (s *status) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.lose()
}

func (s *status) setLocked(connected bool, err error) {
	if s.now.Connected != connected || s.now.Since.IsZero() {
		s.now.Since = time.Now()
	}
	s.now.Connected = connected
	switch {
	case err != nil:
		s.now.Err = err
	case connected:
		s.now.Err = nil
	}
}

// fail records an error that does not end the connection.
func (s *status) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Err = err
}
