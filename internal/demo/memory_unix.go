//go:build unix

package demo

import (
	"runtime"
	"syscall"
)

// accountedPeak returns the peak of the system's process accounting, in bytes.
func accountedPeak() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss) // bytes on that system, KiB elsewhere
	}
	return int64(usage.Maxrss) << 10
}
