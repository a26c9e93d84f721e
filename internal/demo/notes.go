package demo

import (
	"bytes"
	"sync"
)

// Notes keeps what the daemon logs while a screen is in the way, the newest last.
type Notes struct {
	mu   sync.Mutex
	held bytes.Buffer
	line string
}

// notesLimit bounds what is kept.
const notesLimit = 64 << 10

// Write takes a line of the log.
func (l *Notes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = string(bytes.TrimSpace(p))
	if l.held.Len()+len(p) <= notesLimit {
		l.held.Write(p)
	}
	return len(p), nil
}

// Take returns what has been logged since it was called last.
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
