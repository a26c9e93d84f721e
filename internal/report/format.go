package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"loaderd/internal/humanize"
)

// formatPercent formats a share in percent: with two significant digits below 10 %, else with one decimal place.
func formatPercent(share float64) string {
	p := 100 * share
	switch {
	case p == 0:
		return "0 %"
	case p < 0.00001:
		return "< 0.00001 %"
	case p < 10:
		return formatSignificant(p, 2) + " %"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// formatSignificant writes a number without an exponent.
func formatSignificant(v float64, digits int) string {
	decimals := digits - 1 - int(math.Floor(math.Log10(v)))
	return strconv.FormatFloat(v, 'f', max(decimals, 0), 64)
}

// formatShort formats a large number in at most four characters and a unit.
func formatShort(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= 0.9995*u.size {
			v /= u.size
			return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(v)+1e-9)), 64) + u.name
		}
	}
	if v >= 10 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return formatSignificant(v, 2)
}

// formatRows lists row lengths.
func formatRows(lengths []int) string {
	if len(lengths) > 4 {
		return fmt.Sprintf("%d lengths from %s to %s", len(lengths), humanize.Count(lengths[0]),
			humanize.Count(lengths[len(lengths)-1]))
	}
	var s []string
	for _, l := range lengths {
		s = append(s, humanize.Count(l))
	}
	if n := len(s) - 1; n > 0 {
		return strings.Join(s[:n], ", ") + " and " + s[n]
	}
	return s[0]
}
