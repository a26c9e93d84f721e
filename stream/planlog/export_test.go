package planlog

// Learn tells a log where it ends, at least.
func Learn(l *Log, end uint64) { l.learn(end) }
