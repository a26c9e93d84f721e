//go:build unix

package demo

import (
	"runtime"
	"syscall"
)

// accounted is the peak that the system's accounting has, in bytes.
func accounted() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss) // bytes there, KiB elsewhere
	}
	return int64(usage.Maxrss) << 10
}
