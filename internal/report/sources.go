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

// sources returns a row per source, with the values that do not depend on the method.
func (r *Report) sources() (lines []Result) {
	for _, name := range r.sourceNames() {
		lines = append(lines, sourceLine(name, r.Results[0].Sources[name]))
	}
	return lines
}

// bySource returns a row per source and method.
func (r *Report) bySource() (lines []Result) {
	for _, name := range r.sourceNames() {
		for _, x := range r.Results {
			lines = append(lines, sourceLine(name+", "+x.Method, x.Sources[name]))
		}
	}
	return lines
}

// sourceLine returns a row of a table of sources. It stores name in the field that contains the method in other
// tables.
func sourceLine(name string, s *simulation.Source) Result {
	return Result{Result: &simulation.Result{Method: name}, source: s}
}

// ofSource returns a column of a source's values, of which none is marked as the best.
func ofSource(name, unit, about string, value func(*simulation.Source) float64, text func(float64) string) column {
	return column{Name: name, Unit: unit, About: about, value: func(x Result) float64 {
		return value(x.source)
	}, text: text, neutral: true}
}

// sourceColumns depend on the sources only, mixedColumns also on the method.
var (
	sourceColumns = []column{
		ofSource("weight", "", "as configured, relative to those of the others", func(s *simulation.Source) float64 {
			return s.Weight
		}, plain),
		ofSource("target", "% tokens", "share of the tokens that the source is to have, in the mean over the run: others "+
			"take over the weight of one that is used up",
			func(s *simulation.Source) float64 { return s.Target }, percent),
		ofSource("documents", "", "documents that are used, as often as epochs have them",
			func(s *simulation.Source) float64 { return float64(s.Documents) }, short),
		ofSource("tokens", "", "tokens of these", func(s *simulation.Source) float64 { return float64(s.Tokens) }, short),
		ofSource("epochs", "read", "how often the source was read: 2.50 is two and a half times",
			func(s *simulation.Source) float64 { return s.Epochs }, hundredths),
		ofSource("left out", "documents", "documents that are not in the split, too short or too long, in all epochs",
			func(s *simulation.Source) float64 { return float64(s.LeftOut.Split + s.LeftOut.Short + s.LeftOut.Long) }, short),
		ofSource("not reached", "documents", "documents that no epoch came to before the run ended",
			func(s *simulation.Source) float64 { return float64(s.LeftOut.NotReached) }, short),
	}
	mixedColumns = []column{
		ofSource("share", "% tokens", "share of the tokens in rows", func(s *simulation.Source) float64 {
			return s.Share
		}, percent),
		ofSource("off", "% tokens",
			"how far the share of the worst twentieth of the run is off its target, as a share of all tokens",
			func(s *simulation.Source) float64 { return s.Deviation }, percent),
		ofSource("padding", "tokens",
			"the source's part of the padding: that of each row is divided by the tokens of the sources in it",
			func(s *simulation.Source) float64 { return float64(s.PaddingTokens) }, short),
		ofSource("age", "median", "documents of all sources that arrive while one of this source waits: half wait no longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMedian) }, short),
		ofSource("age", "max", "documents of all sources that arrive while one of this source waits: none waits longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMax) }, short),
	}
)

// plain formats a number without trailing zeros.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
