//go:build unix

package connlimit

import (
	"math"
	"syscall"
)

// Descriptors returns how many descriptors the process may have open.
func Descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
}
