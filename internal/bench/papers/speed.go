package main

import (
	"runtime/debug"
	"syscall"
	"time"

	"loaderd/packonline"
)

// packSeconds packs lengths so many times and returns the least processor time from the first length to the last row, with what is in
// it: other work on the machine counts little.
func packSeconds(c packonline.Config, in []int32, times int) (float64, error) {
	var least time.Duration
	for range times {
		p, err := packonline.New(c)
		if err != nil {
			return 0, err
		}
		debug.FreeOSMemory()
		start := processorTime()
		var rows packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &rows)
			if i%4096 == 0 {
				rows.Reset()
			}
		}
		p.Flush(&rows)
		if t := processorTime() - start; least == 0 || t < least {
			least = t
		}
	}
	return least.Seconds(), nil
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a wrong argument can be
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
