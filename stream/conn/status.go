package conn

import (
	"context"
	"sync"
	"time"
)

// Status is the state of the connection to JetStream.
type Status struct {
	Connected bool      // the server can be reached and, when it is embedded, can write its streams
	Since     time.Time // when Connected became what it is
	Err       error     // the last one; nil when there was none since the last connect
}

// status is the connection's state as the client's callbacks tell it.
type status struct {
	mu     sync.Mutex
	now    Status
	up     context.Context
	lose   context.CancelFunc // ends up
	closed bool               // no connection follows, whatever the client still tells
}

func newStatus() *status {
	s := &status{}
	s.up, s.lose = context.WithCancel(context.Background())
	return s
}

// connection ends when the present connection is lost; an answer to what was asked over it will never come.
func (s *status) connection() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

// lost and restored are told by the client.

func (s *status) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
	s.setLocked(false, err)
}

func (s *status) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose() // a client that reconnects without word of a loss
	if s.closed {
		return
	}
	s.up, s.lose = context.WithCancel(context.Background())
	s.setLocked(true, nil)
}

// close ends the present connection for good.
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

// fail notes an error that leaves the connection as it is.
func (s *status) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Err = err
}
