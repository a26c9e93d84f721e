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
	mu              sync.Mutex
	current         Status
	connected       context.Context
	cancelConnected context.CancelFunc // ends up
	closed          bool               // no connection follows, even if the client library still reports one
}

func newStatus() *status {
	s := &status{}
	s.connected, s.cancelConnected = context.WithCancel(context.Background())
	return s
}

// connectionContext returns a context that ends when the current connection is lost. No response to a request over that
// connection arrives afterwards.
func (s *status) connectionContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// The client library calls lost and restored.

func (s *status) setLost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelConnected()
	s.setLocked(false, err)
}

func (s *status) setRestored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelConnected() // the client may reconnect without reporting a loss
	if s.closed {
		return
	}
	s.connected, s.cancelConnected = context.WithCancel(context.Background())
	s.setLocked(true, nil)
}

// close ends the current connection for good.
func (s *status) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cancelConnected()
}

func (s *status) setLocked(connected bool, err error) {
	if s.current.Connected != connected || s.current.Since.IsZero() {
		s.current.Since = time.Now()
	}
	s.current.Connected = connected
	switch {
	case err != nil:
		s.current.Err = err
	case connected:
		s.current.Err = nil
	}
}

// setError records an error that does not end the connection.
func (s *status) setError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Err = err
}
