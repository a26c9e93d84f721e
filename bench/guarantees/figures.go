package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// quantile returns the smallest value that at least a share q of the values do not exceed; the largest for 1. It
// sorts the values.
func quantile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	slices.Sort(values)
	i := int(math.Ceil(q*float64(len(values)))) - 1
	return values[min(max(i, 0), len(values)-1)]
}

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	digits := 0
	if ms < 10 {
		digits = 2
	} else if ms < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f ms", digits, ms)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func percent(share float64, digits int) string { return fmt.Sprintf("%.*f %%", digits, 100*share) }

// thousands formats a number with commas.
func thousands[T ~int | ~int64 | ~uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
