//go:build unix

package record

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that this process has used, of user and system. Other load on the machine
// affects it little.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only for a wrong argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
