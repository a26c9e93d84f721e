package demo

// accounted is unknown here: the demo then says nothing of memory.
func accounted() int64 { return 0 }
