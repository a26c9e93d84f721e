package planlog

// Learn exports learn: it sets a lower bound of a log's end.
func Learn(l *Log, end uint64) { l.learn(end) }
