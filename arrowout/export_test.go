package arrowout

import "time"

// ReapSlowReaders runs the server's periodic check for slow readers as if the time were at.
func (s *Server) ReapSlowReaders(at time.Time) { s.sessions.ReapSlowReaders(at) }

// SetEvictAfter sets how long a stream waits for memory before streams that have been blocked for as long are ended.
func (s *Server) SetEvictAfter(d time.Duration) { s.sessions.SetEvictAfter(d) }

// OnBufferReturn calls f with memory that a batch has returned, before another batch uses it.
func (s *Server) OnBufferReturn(f func(memory []byte)) { s.service.bufferPool.OnReturn = f }

// Revoke checks the identities of open calls, as the server does every few seconds.
func (s *Server) Revoke() { s.calls.revokeCalls() }
