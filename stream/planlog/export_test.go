package planlog

import "time"

// SetBeginPatience changes how long a run may take to begin, and returns what changes it back.
func SetBeginPatience(d time.Duration) (restore func()) {
	before := beginPatience
	beginPatience = d
	return func() { beginPatience = before }
}
