package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the units of sizes: binary ones first, largest first.
var sizeUnits = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// parseSize parses a number of bytes: 4096, 64MiB, 1GB.
func parseSize(s string) (int64, error) {
	number, factor := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if n, ok := cutSuffixFold(number, u.name); ok {
			number, factor = strings.TrimSpace(n), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse size %q: not a number of bytes", s)
	}
	if n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, fmt.Errorf("parse size %q: too large", s)
	}
	return n * factor, nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if k := len(s) - len(suffix); k >= 0 && strings.EqualFold(s[k:], suffix) {
		return s[:k], true
	}
	return s, false
}

// formatSize formats a number of bytes in the largest binary unit that divides it, so that parseSize returns the same
// number.
func formatSize(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n != 0 && n%u.factor == 0 {
			return fmt.Sprintf("%d%s", n/u.factor, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// formatDuration formats 20s and 1m0s without zero units: 20s, 1m.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
