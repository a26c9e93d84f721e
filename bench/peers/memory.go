package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// resetPeak resets the kernel's peak resident size of this process, and returns the current size in bytes. It works
// on Linux only.
func resetPeak() (int64, error) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, fmt.Errorf("reset the peak of the resident size: %w", err)
	}
	return status("VmRSS:")
}

// peak returns the largest resident size since resetPeak in bytes.
func peak() (int64, error) { return status("VmHWM:") }

func status(field string) (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", field)
}
