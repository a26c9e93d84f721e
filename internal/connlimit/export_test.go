package connlimit

// Open returns the number of open connections, spare ones included.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.openCount() + l.queue[spare].Len()
}

// HostOf exports hostOf.
var HostOf = hostOf
