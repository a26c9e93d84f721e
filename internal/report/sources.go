package report

import (
	"maps"
	"slices"
	"strconv"

	"loaderd/internal/simulation"
)

// sourceNames returns the names of the sources of a mixture, nil without a mixture.
func (r *Report) sourceNames() []string {
	if len(r.Results) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.Results[0].Sources))
}

// sourceRows returns a row per source, with the values that do not depend on the method.
func (r *Report) sourceRows() (lines []Result) {
	for _, name := range r.sourceNames() {
		lines = append(lines, sourceRow(name, r.Results[0].Sources[name]))
	}
	return lines
}

// sourceMethodRows returns a row per source and method.
func (r *Report) sourceMethodRows() (lines []Result) {
	for _, name := range r.sourceNames() {
		for _, x := range r.Results {
			lines = append(lines, sourceRow(name+", "+x.Method, x.Sources[name]))
		}
	}
	return lines
}

// sourceRow returns a row of a table of sources. It stores name in the field that contains the method in other
// tables.
func sourceRow(name string, s *simulation.Source) Result {
	return Result{Result: &simulation.Result{Method: name}, source: s}
}

// sourceColumn returns a column of a source's values, of which none is marked as the best.
func sourceColumn(name, unit, about string, value func(*simulation.Source) float64, text func(float64) string) column {
	return column{Name: name, Unit: unit, About: about, value: func(x Result) float64 {
		return value(x.source)
	}, text: text, unranked: true}
}

// sourceColumns depend on the sources only, mixedColumns also on the method.
var (
	sourceColumns = []column{
		sourceColumn("weight", "", "as configured, relative to those of the others", func(s *simulation.Source) float64 {
			return s.Weight
		}, formatPlain),
		sourceColumn("target", "% tokens",
			"share of the tokens that the source is to have, in the mean over the run: others "+
				"take over the weight of one that is used up",
			func(s *simulation.Source) float64 { return s.Target }, formatPercent),
		sourceColumn("documents", "", "documents that are used, as often as epochs have them",
			func(s *simulation.Source) float64 { return float64(s.Documents) }, formatShort),
		sourceColumn("tokens", "", "tokens of these", func(s *simulation.Source) float64 {
			return float64(s.Tokens)
		}, formatShort),
		sourceColumn("epochs", "read", "how often the source was read: 2.50 is two and a half times",
			func(s *simulation.Source) float64 { return s.Epochs }, formatHundredths),
		sourceColumn("left out", "documents", "documents that are not in the split, too short or too long, in all epochs",
			func(s *simulation.Source) float64 {
				return float64(s.LeftOut.Split + s.LeftOut.Short + s.LeftOut.Long)
			}, formatShort),
		sourceColumn("not reached", "documents", "documents that no epoch reached before the run ended",
			func(s *simulation.Source) float64 { return float64(s.LeftOut.NotReached) }, formatShort),
	}
	mixedColumns = []column{
		sourceColumn("share", "% tokens", "share of the tokens in rows", func(s *simulation.Source) float64 {
			return s.Share
		}, formatPercent),
		sourceColumn("off", "% tokens",
			"how far the share of the worst twentieth of the run is off its target, as a share of all tokens",
			func(s *simulation.Source) float64 { return s.Deviation }, formatPercent),
		sourceColumn("padding", "tokens",
			"the source's part of the padding: that of each row is divided by the tokens of the sources in it",
			func(s *simulation.Source) float64 { return float64(s.PaddingTokens) }, formatShort),
		sourceColumn("age", "median",
			"documents of all sources that arrive while one of this source waits: half wait no longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMedian) }, formatShort),
		sourceColumn("age", "max", "documents of all sources that arrive while one of this source waits: none waits longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMax) }, formatShort),
	}
)

// formatPlain formats a number without trailing zeros.
func formatPlain(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
