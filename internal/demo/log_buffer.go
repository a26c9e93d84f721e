package demo

import (
	"bytes"
	"sync"
)

// LogBuffer buffers the daemon's log while a full-screen view is active, oldest line first.
type LogBuffer struct {
	mu         sync.Mutex
	buffer     bytes.Buffer
	newestLine string
}

// maxLogBytes is the maximum size of the buffer, in bytes.
const maxLogBytes = 64 << 10

// Write adds a log line.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newestLine = string(bytes.TrimSpace(p))
	if l.buffer.Len()+len(p) <= maxLogBytes {
		l.buffer.Write(p)
	}
	return len(p), nil
}

// TakeLines returns the lines logged since the previous call.
func (l *LogBuffer) TakeLines() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bytes.Clone(l.buffer.Bytes())
	l.buffer.Reset()
	return out
}

// lastLine returns the newest line.
func (l *LogBuffer) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newestLine
}
