package conn

import "testing"

// A client that is closed while it reconnects may still report a connection. No request may wait for responses
// over it.
func TestStatus_StaysClosed(t *testing.T) {
	s := newStatus()
	told := make(chan struct{})
	go func() { // for the race detector
		defer close(told)
		for range 100 {
			s.setRestored()
		}
	}()
	s.close()
	<-told
	s.setRestored()
	if s.connectionContext().Err() == nil {
		t.Error("a closed client has a connection")
	}
}
