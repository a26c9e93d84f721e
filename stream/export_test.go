package stream

import "time"

// SetBeginPatience changes how long a run may take to begin, and returns what changes it back.
func SetBeginPatience(d time.Duration) (restore func()) {
	before := beginPatience
	beginPatience = d
	return func() { beginPatience = before }
}

// SetWorkers lets a benchmark compare numbers of workers over one server.
func SetWorkers(l *DocumentLog, n int) { l.workers = n }

// SetInactive sets when the server drops the consumer of a reader that asks for nothing.
func SetInactive(l *DocumentLog, d time.Duration) { l.inactive = d }
