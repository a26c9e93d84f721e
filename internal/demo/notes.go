package demo

import (
	"bytes"
	"sync"
)

// Notes buffers the daemon's log while a full-screen view is active, oldest line first.
type Notes struct {
	mu   sync.Mutex
	held bytes.Buffer
	line string
}

// notesLimit is the maximum size of the buffer, in bytes.
const notesLimit = 64 << 10

// Write adds a log line.
func (l *Notes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = string(bytes.TrimSpace(p))
	if l.held.Len()+len(p) <= notesLimit {
		l.held.Write(p)
	}
	return len(p), nil
}

// Take returns the lines logged since the previous call.
func (l *Notes) Take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bytes.Clone(l.held.Bytes())
	l.held.Reset()
	return out
}

// last returns the newest line.
func (l *Notes) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
