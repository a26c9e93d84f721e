package arrowout

import "time"

// LookForSlowReaders does what the server does of itself every now and then, as if it were at another time.
func (s *Server) LookForSlowReaders(at time.Time) {
	s.slowness.look(at, time.Duration(s.slowness.after.Load()))
}
