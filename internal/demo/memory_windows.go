package demo

// accounted returns 0, unknown. The demo then does not report its memory.
func accounted() int64 { return 0 }
