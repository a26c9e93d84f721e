package main

import (
	"fmt"
	"syscall"
	"time"
)

// timed returns the wall-clock and the CPU seconds of f.
func timed(f func()) (wall, cpu float64, err error) {
	before, err := cpuSeconds()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	f()
	wall = time.Since(began).Seconds()
	after, err := cpuSeconds()
	return wall, after - before, err
}

func usage() (u syscall.Rusage, err error) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return u, fmt.Errorf("read resource usage: %w", err)
	}
	return u, nil
}

// cpuSeconds returns the CPU seconds of the whole process, including the garbage collector.
func cpuSeconds() (float64, error) {
	u, err := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), err
}

// peakMemory returns the peak resident size of the process in bytes.
func peakMemory() (int64, error) {
	u, err := usage()
	return u.Maxrss << 10, err
}
