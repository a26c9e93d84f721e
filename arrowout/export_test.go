package arrowout

import "time"

// LookForSlowReaders does what the server does of itself every now and then, as if it were at another time.
func (s *Server) LookForSlowReaders(at time.Time) { s.sessions.LookForSlowReaders(at) }

// PressAfter sets for how long a stream waits for memory before streams that have stood still for as long are ended.
func (s *Server) PressAfter(d time.Duration) { s.sessions.PressAfter(d) }

// OnReturned has f look at memory that batches have given back, before others take it.
func (s *Server) OnReturned(f func(memory []byte)) { s.service.buffers.Returned = f }

// Revoke checks the identities of open calls, as the server does every few seconds.
func (s *Server) Revoke() { s.calls.revoke() }
