package report

import (
	"math"
	"strconv"
)

// column is a value of every result, as a table column.
type column struct {
	Name, Unit, About string
	short             string // short name for narrow tables, if it has one
	value             func(Result) float64
	text              func(float64) string
	higherIsBetter    bool // the highest value is the best
	unranked          bool // no value is the best
}

// Title returns the name with the unit.
func (c column) Title() string {
	if c.Name == "" || c.Unit == "" {
		return c.Name + c.Unit
	}
	return c.Name + ", " + c.Unit
}

var columns = []column{
	{Name: "padding", Unit: "% slots", About: "slots of rows that hold no token", value: func(x Result) float64 {
		return x.PaddingRatio
	}, text: formatPercent},
	{Name: "split", Unit: "% docs", About: "documents cut into several pieces", value: func(x Result) float64 {
		return x.TruncationRatio
	}, text: formatPercent},
	{Name: "not whole", Unit: "% docs", About: "documents that are split or short of tokens that were dropped",
		value: Result.notWholeShare, text: formatPercent},
	{Name: "dropped", Unit: "% tokens", About: "tokens that are never trained on", value: Result.droppedShare,
		text: formatPercent},
	{Name: "repeated", Unit: "% tokens", About: "tokens that are trained on twice", value: Result.repeatedShare,
		text: formatPercent},
	{Name: "docs", Unit: "a row", About: "documents that share a row, in the mean", value: func(x Result) float64 {
		return x.ConcatenationRatio
	},
		text: formatHundredths, unranked: true},
	{Name: "age", Unit: "median", About: "documents that arrive while one waits: half wait no longer",
		value: func(x Result) float64 { return float64(x.AgeMedian) }, text: formatShort},
	{Name: "age", Unit: "max", About: "documents that arrive while one waits: none waits longer",
		value: func(x Result) float64 { return float64(x.AgeMax) },
		text:  formatShort},
	{Name: "sample", Unit: "% off", About: "how far the share of tokens of short documents is off in the worst " +
		"twentieth of the run, relative to the whole run's",
		value: Result.deviation, text: dashIfNaN(formatPercent), unranked: true},
	{Name: "attention", short: "attn", Unit: "masked", About: "tokens that a token attends to under the document mask",
		value: Result.maskedAttention, text: formatShort,
		unranked: true},
	{Name: "attention", short: "attn", Unit: "dense",
		About: "tokens that a token attends to without a mask: what dense attention computes",
		value: Result.unmaskedAttention, text: formatShort},
	{Name: "speed", Unit: "docs/s", About: "documents packed a second, on one core", value: func(x Result) float64 {
		return x.DocumentsPerSecond
	}, text: formatShort,
		higherIsBetter: true},
}

func formatHundredths(v float64) string {
	if v > 0 && v < 0.1 {
		return formatSignificant(v, 2)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// dashIfNaN formats unknown (NaN) values as a dash.
func dashIfNaN(text func(float64) string) func(float64) string {
	return func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return text(v)
	}
}

// bestResults selects the results with the best value of a column. If more than half of the results have it, none is
// selected.
func (c column) bestResults(results []Result) []bool {
	best := math.Inf(1)
	sign := 1.0
	if c.higherIsBetter {
		sign = -1
	}
	for _, x := range results {
		best = min(best, sign*c.value(x))
	}
	marks, n := make([]bool, len(results)), 0
	for i, x := range results {
		if !c.unranked && c.text(c.value(x)) == c.text(sign*best) {
			marks[i] = true
			n++
		}
	}
	if 2*n > len(results) {
		clear(marks)
	}
	return marks
}
