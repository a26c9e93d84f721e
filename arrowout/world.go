package arrowout

import (
	"fmt"
	"strconv"
	"strings"

	"loaderd/loader"
)

// checkWorld refuses a world size that does not divide the rows of a step, and says which ones do.
func checkWorld(world, rows int) error {
	if rows > 0 && rows%world == 0 {
		return nil
	}
	fits := divisors(rows)
	return &loader.Error{Reason: loader.WorldMismatch,
		Message: fmt.Sprintf("%d ranks cannot share the %d rows of a step equally", world, rows),
		Do:      "use one of these world sizes: " + fits,
		Facts:   map[string]string{"world": strconv.Itoa(world), "rows": strconv.Itoa(rows), "divisors": fits}}
}

// divisors lists the divisors of n in ascending order; of more than 32 the middle is left out.
func divisors(n int) string {
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
