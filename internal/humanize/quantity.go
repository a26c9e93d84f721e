// Package humanize formats numbers for people.
package humanize

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Count formats a count with separators: 12,345.
func Count[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short formats a number with about three digits: 950, 12.3k, 4.56M.
func Short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	switch {
	case unit == "" || v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, unit)
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, unit)
	}
	return fmt.Sprintf("%.2f%s", v, unit)
}

// Bytes formats a number of bytes: 512 B, 5.4 MiB.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// Things formats a count of things: 1 reader, 2,000 readers.
func Things(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%s %ss", Count(n), thing)
}

// Of formats a part of a count: 1 of 2,000 readers; with a whole of 0 the part alone.
func Of(part, whole int, thing string) string {
	if whole == 0 {
		return Things(part, thing)
	}
	return Count(part) + " of " + Things(whole, thing)
}

// Are formats a count of things with a verb: 1 reader is, 2,000 readers are.
func Are(n int, thing string) string {
	if n == 1 {
		return Things(n, thing) + " is"
	}
	return Things(n, thing) + " are"
}

// Range formats the minimum and the maximum of some numbers: 2,048, or 1,024 to 16,384; "no" for an empty list.
func Range(numbers []int) string {
	if len(numbers) == 0 {
		return "no"
	}
	least, most := Count(slices.Min(numbers)), Count(slices.Max(numbers))
	if least == most {
		return most
	}
	return least + " to " + most
}

// Time formats a duration in a suitable unit: 40 s, 3 min, 2 h, 4 days.
func Time(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 90:
		return fmt.Sprintf("%.0f s", s)
	case s < 90*60:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 36*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	default:
		return fmt.Sprintf("%.0f days", s/86400)
	}
}
