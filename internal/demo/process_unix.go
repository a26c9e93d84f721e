//go:build unix

package demo

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup keeps the signals of the terminal, such as ctrl-C, from a process: the demo ends its processes itself.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// accountedPeak returns the peak resident memory of a process that has ended, in bytes; 0 if unknown.
func accountedPeak(s *os.ProcessState) int64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss) // bytes on that system, KiB elsewhere
	}
	return int64(usage.Maxrss) << 10
}
