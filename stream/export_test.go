package stream

// SetWorkers lets a benchmark compare numbers of workers over one server.
func SetWorkers(l *DocumentLog, n int) { l.workers = n }
