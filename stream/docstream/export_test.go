package docstream

import "time"

// SetWorkers lets a benchmark compare numbers of workers over one server.
func SetWorkers(l *Log, n int) { l.workers = n }

// SetInactive sets after how long without a request the server drops the consumer of a reader.
func SetInactive(l *Log, d time.Duration) { l.inactive = d }
