package follower

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loaderd/loader/fault"
	"loaderd/loader/runconfig"
)

// CheckWorldSize returns an error for a world size that does not divide the rows of every bucket's steps. The
// *fault.Error lists valid sizes.
func CheckWorldSize(c runconfig.Config, world int) error {
	rows := c.Steps.RowsPerBucket(c.Packing.Buckets)
	shared := 0 // the greatest common divisor
	for _, n := range rows {
		for shared, n = n, shared; n != 0; {
			shared, n = n, shared%n
		}
	}
	if shared > 0 && shared%world == 0 {
		return nil
	}
	has := fmt.Sprintf("the %d rows of a step", rows[0])
	if slices.Min(rows) < slices.Max(rows) {
		has = fmt.Sprintf("the rows of a step, %v by its bucket,", rows)
	}
	fits := formatDivisors(shared)
	return &fault.Error{Reason: fault.WorldMismatch,
		Message: fmt.Sprintf("%d ranks cannot share %s equally", world, has),
		Advice:  "use one of these world sizes: " + fits + "; or other steps.rows, steps.tokens or steps.table in a new run",
		Facts:   map[string]string{"world": strconv.Itoa(world), "rows": strconv.Itoa(shared), "divisors": fits}}
}

// formatDivisors lists the divisors of n in ascending order; if more than 32, without those in the middle.
func formatDivisors(n int) string {
	var low, high []string
	for d := 1; d*d <= n; d++ {
		if n%d != 0 {
			continue
		}
		low = append(low, strconv.Itoa(d))
		if d*d != n {
			high = append([]string{strconv.Itoa(n / d)}, high...)
		}
	}
	if len(low)+len(high) > 32 {
		low, high = low[:16], append([]string{"..."}, high[len(high)-16:]...)
	}
	return strings.Join(append(low, high...), " ")
}
