package arrowout

import "time"

// LookForSlowReaders runs the server's periodic check for slow readers as if the time were at.
func (s *Server) LookForSlowReaders(at time.Time) { s.sessions.LookForSlowReaders(at) }

// PressAfter sets how long a stream waits for memory before streams that have been blocked for as long are ended.
func (s *Server) PressAfter(d time.Duration) { s.sessions.PressAfter(d) }

// OnReturned calls f with memory that a batch has returned, before another batch uses it.
func (s *Server) OnReturned(f func(memory []byte)) { s.service.buffers.Returned = f }

// Revoke checks the identities of open calls, as the server does every few seconds.
func (s *Server) Revoke() { s.calls.revoke() }
