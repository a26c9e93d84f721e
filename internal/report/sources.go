package report

import (
	"maps"
	"slices"
	"strconv"

	"loaderd/internal/simulation"
)

// sourceNames are those of a mixture, none without one.
func (r *Report) sourceNames() []string {
	if len(r.Results) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.Results[0].Sources))
}

// sources has a line for every source, with the figures that no method changes.
func (r *Report) sources() (lines []Result) {
	for _, name := range r.sourceNames() {
		lines = append(lines, sourceLine(name, r.Results[0].Sources[name]))
	}
	return lines
}

// bySource has a line for every source and method.
func (r *Report) bySource() (lines []Result) {
	for _, name := range r.sourceNames() {
		for _, x := range r.Results {
			lines = append(lines, sourceLine(name+", "+x.Method, x.Sources[name]))
		}
	}
	return lines
}

// sourceLine is a line of a table about sources: name stands where other tables have the method.
func sourceLine(name string, s *simulation.Source) Result {
	return Result{Result: &simulation.Result{Method: name}, source: s}
}

// ofSource is a column about a source, of which none is the best.
func ofSource(name, unit, about string, value func(*simulation.Source) float64, text func(float64) string) column {
	return column{Name: name, Unit: unit, About: about, value: func(x Result) float64 { return value(x.source) }, text: text, neutral: true}
}

// sourceColumns are about the sources alone, mixedColumns about what a method makes of them.
var (
	sourceColumns = []column{
		ofSource("weight", "", "as configured, relative to those of the others", func(s *simulation.Source) float64 { return s.Weight }, plain),
		ofSource("target", "% tokens", "share of the tokens that the source is to have, in the mean over the run: others take over the weight of one that is used up",
			func(s *simulation.Source) float64 { return s.Target }, percent),
		ofSource("documents", "", "documents that are used, as often as epochs have them", func(s *simulation.Source) float64 { return float64(s.Documents) }, short),
		ofSource("tokens", "", "tokens of these", func(s *simulation.Source) float64 { return float64(s.Tokens) }, short),
		ofSource("epochs", "read", "how often the source was read: 2.50 is two and a half times", func(s *simulation.Source) float64 { return s.Epochs }, hundredths),
		ofSource("left out", "documents", "documents that are not in the split, too short or too long, in all epochs",
			func(s *simulation.Source) float64 { return float64(s.LeftOut.Split + s.LeftOut.Short + s.LeftOut.Long) }, short),
		ofSource("not reached", "documents", "documents that no epoch came to before the run ended",
			func(s *simulation.Source) float64 { return float64(s.LeftOut.NotReached) }, short),
	}
	mixedColumns = []column{
		ofSource("share", "% tokens", "share of the tokens in rows", func(s *simulation.Source) float64 { return s.Share }, percent),
		ofSource("off", "% tokens", "how far the share of the worst twentieth of the run is off its target, as a share of all tokens",
			func(s *simulation.Source) float64 { return s.Deviation }, percent),
		ofSource("padding", "tokens", "the source's part of the padding: that of each row is divided by the tokens of the sources in it",
			func(s *simulation.Source) float64 { return float64(s.PaddingTokens) }, short),
		ofSource("age", "median", "documents of all sources that arrive while one of this source waits: half wait no longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMedian) }, short),
		ofSource("age", "max", "documents of all sources that arrive while one of this source waits: none waits longer",
			func(s *simulation.Source) float64 { return float64(s.AgeMax) }, short),
	}
)

// plain is a number as a person would write it.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// followed are the results of runs that are long enough to follow the shares of their sources.
func (r *Report) followed() (some []Result) {
	for _, x := range r.Results {
		if len(x.Sources) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(x.Sources)), func(s *simulation.Source) bool { return len(s.Shares) == 0 }) {
			some = append(some, x)
		}
	}
	return some
}

// followedHeight is the height of a method's line in the plot of the shares of sources, which are stacked.
const followedHeight = 64

// shares shows for every method the share of every source along its run, stacked, and where the targets lie.
func (r *Report) shares() perMethod {
	names := r.sourceNames()
	return perMethod{
		about: "Share of every source in every twentieth of the run, and its target", results: r.followed(), best: r.Best,
		height: followedHeight, scale: linear, most: 1,
		figure: func(x Result) string { return percent(x.worstShare()) },
		ticks:  steps(1, 5, percentStep),
		paint: func(d *drawing, res Result, _ string, x func(float64) float64, y float64) {
			at := func(share float64) float64 { return y - (share-.5)*(followedHeight-10) }
			share := make([]float64, len(res.Sources[names[0]].Shares)) // of the sources so far, of every twentieth
			target := slices.Clone(share)
			var aims [][]point
			for i, name := range names {
				s := res.Sources[name]
				lower := stairs(share, x, at)
				for k := range share {
					share[k] += s.Shares[k]
					target[k] += s.Targets[k]
				}
				slices.Reverse(lower)
				d.polygon(ramp(i, len(names)).String(), append(stairs(share, x, at), lower...))
				aims = append(aims, stairs(target, x, at))
			}
			for _, aim := range aims[:len(aims)-1] { // above the last one there is nothing
				d.curve(paper, 2.5, aim)
				d.curve(ink, 1, aim)
			}
		},
	}
}

// stairs are the points of a line that is level over each of the values.
func stairs(values []float64, x, y func(float64) float64) (line []point) {
	for k, v := range values {
		from, to := float64(k)/float64(len(values)), float64(k+1)/float64(len(values))
		line = append(line, point{x(from), y(v)}, point{x(to), y(v)})
	}
	return line
}

// worstShare is how far the worst source of a result is off its target in the worst twentieth.
func (x Result) worstShare() (worst float64) {
	for _, s := range x.Sources {
		worst = max(worst, s.Deviation)
	}
	return worst
}

// sourceSwatches explain the colors of the sources, from the lowest on.
func (r *Report) sourceSwatches() (legend []swatch) {
	names := r.sourceNames()
	for i, name := range names {
		legend = append(legend, swatch{"background:" + ramp(i, len(names)).String(), name})
	}
	return append(legend, swatch{"background:var(--ink);height:2px", "targets"})
}
