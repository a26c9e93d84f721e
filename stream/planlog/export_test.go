package planlog

// ObserveEnd exports learn: it sets a lower bound of a log's end.
func ObserveEnd(l *Log, end uint64) { l.observeEnd(end) }
