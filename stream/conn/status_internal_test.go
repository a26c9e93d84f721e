package conn

import "testing"

// A client that is closed while it reconnects may still tell of a connection: nobody is to wait for answers over that
// one.
func TestStatusStaysClosed(t *testing.T) {
	s := newStatus()
	told := make(chan struct{})
	go func() { // the race detector looks on
		defer close(told)
		for range 100 {
			s.restored()
		}
	}()
	s.close()
	<-told
	s.restored()
	if s.connection().Err() == nil {
		t.Error("a closed client has a connection")
	}
}
