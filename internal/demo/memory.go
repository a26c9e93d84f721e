package demo

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// peakMemory returns the peak resident memory of this process, in bytes.
func peakMemory() int64 {
	if f, err := os.Open("/proc/self/status"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if v, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
				if kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64); err == nil {
					return kib << 10
				}
			}
		}
	}
	return accountedPeak()
}
