package main

import (
	"context"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"loaderd/bench/figure"
	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
)

// The run of the picture has three sources whose weights are changed by hand, one of which is paused for a while, and
// an anneal at the end.
const (
	pictureTokens = 210e6
	changeAt      = 40e6
	restAt        = 80e6
	wakeAt        = 110e6
	annealAt      = 140e6
	annealOver    = 40e6
	pictureSteps  = 20 // steps per plotted share
)

var pictureSources = []string{"code", "math", "web"} // by source number

// phase is a part of the picture's run.
type phase struct {
	name     string
	from, to int64 // tokens taken
}

var phases = []phase{
	{"weights as configured", 0, changeAt},
	{"weights changed", changeAt, restAt},
	{"code paused", restAt, wakeAt},
	{"code resumed", wakeAt, annealAt},
	{"ramp of the schedule", annealAt, annealAt + annealOver},
	{"annealed", annealAt + annealOver, pictureTokens},
}

// point is the plotted values of one step.
type point struct {
	taken  int64     // tokens taken at the step
	tokens []int64   // of each source
	target []float64 // share of each source
}

// printMixturePicture follows the shares of three sources through a change of weights, a pause and an anneal.
func printMixturePicture(ctx context.Context, b *bench, out io.Writer) error {
	points, err := picture(ctx)
	if err != nil {
		return err
	}
	if b.picture != "" {
		if err := drawMixture(points, b.picture); err != nil {
			return fmt.Errorf("draw %s: %w", b.picture, err)
		}
	}
	var m page.Markdown
	head := []any{"phase", "tokens taken", "steps"}
	for _, name := range pictureSources {
		head = append(head, name+": target at its end", "share of its last 100 steps")
	}
	m.Values(head...)
	for _, ph := range phases {
		var of []point
		for _, p := range points {
			if p.taken > ph.from && p.taken <= ph.to {
				of = append(of, p)
			}
		}
		row := []any{ph.name, fmt.Sprintf("%s M to %s M", thousands(ph.from/1e6), thousands(ph.to/1e6)), len(of)}
		tokens, total := sharesOf(of[len(of)-100:]).all()
		for i, target := range of[len(of)-1].target {
			row = append(row, percent(target, 1), percent(float64(tokens[i])/float64(total), 1))
		}
		m.Values(row...)
	}
	return m.Print(out)
}

func sharesOf(points []point) (s stepShares) {
	for _, p := range points {
		s = append(s, p.tokens)
	}
	return s
}

// picture plans the run.
func picture(ctx context.Context) ([]point, error) {
	const list = 1 << 14
	all := [][]int32{lengths.LogNormalOf(6.1, 1.4, list, 1), lengths.LogNormalOf(6.8, .8, list, 2),
		lengths.LogNormal(list, 3)}
	run := newMixed(map[string]mixture.Source{"code": {Weight: 30, Epochs: 1}, "math": {Weight: 10, Epochs: 1},
		"web": {Weight: 60, Epochs: 1}},
		func(source int, sequence uint64) int { return int(all[source][sequence%list]) })
	run.config.Mix.Schedule = []mixture.Point{{Tokens: annealAt, Ramp: annealOver,
		Weights: map[string]float64{"code": 20, "math": 60, "web": 20}}}
	a, err := run.begin()
	if err != nil {
		return nil, err
	}
	var points []point
	each := func(s plan.Step) {
		p := point{taken: a.UsedTokens, tokens: bySource(s, len(pictureSources))}
		for _, x := range a.Planner.Mixture().Status() {
			p.target = append(p.target, x.Share)
		}
		points = append(points, p)
	}
	for _, x := range []struct {
		at      int64
		control planrecord.Control
	}{
		{changeAt, planrecord.Mix{Change: mixture.Change{Weights: map[string]float64{"code": 45, "math": 15, "web": 40}}}},
		{restAt, planrecord.Rest{Source: 0, Rests: true}},
		{wakeAt, planrecord.Rest{Source: 0}},
		{pictureTokens, nil},
	} {
		if err := run.take(ctx, a, x.at, each); err != nil {
			return nil, err
		}
		if x.control == nil {
			break
		}
		a.Record(x.control.PlaceAfter(a.Planner.Clock()))
		// none of these controls completes a step
		if err := a.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// Colors of the sources, from the top of the picture to the bottom.
var pictureColors = []color.RGBA{{0x6c, 0xae, 0xcf, 255}, {0xf0, 0x95, 0x3f, 255}, {0x8f, 0x9e, 0xae, 255}}

// drawMixture draws the shares of steps as areas and the targets as dashed lines between them, on white, for pages of
// any color.
func drawMixture(points []point, file string) error {
	const width, height = 870, 300
	x := plot.New()
	x.X.Label.Text, x.Y.Label.Text = fmt.Sprintf("step (64 rows of 2,048 tokens; mean of %d)", pictureSteps),
		"share of the tokens (dashed: target)"
	x.X.Padding, x.Y.Padding = 0, 0
	x.X.Max, x.Y.Max = float64(len(points)/pictureSteps*pictureSteps), 1
	x.Y.Tick.Marker = plot.ConstantTicks{{Label: "0 %"}, {Value: .25, Label: "25 %"}, {Value: .5, Label: "50 %"},
		{Value: .75, Label: "75 %"}, {Value: 1, Label: "100 %"}}
	figure.SetFont(11, &x.X.Label.TextStyle.Font, &x.Y.Label.TextStyle.Font,
		&x.X.Tick.Label.Font, &x.Y.Tick.Label.Font)
	lower := make([]float64, len(points)/pictureSteps)
	for i := range pictureSources {
		upper, area, err := layer(points, lower, i)
		if err != nil {
			return err
		}
		x.Add(area)
		lower = upper
	}
	for i := range pictureSources[1:] { // the last area ends at the top
		l, err := plotter.NewLine(targetLine(points, i))
		if err != nil {
			return err
		}
		l.Width, l.Dashes = 1.25, []vg.Length{5, 3}
		x.Add(l)
	}
	if err := annotate(x, points); err != nil {
		return err
	}
	whole := vgsvg.New(width, height)
	x.Draw(draw.Crop(draw.New(whole), 6, -14, 6, -6))
	return figure.Write(whole, file)
}

// layer returns the area of one source, on top of the areas below it.
func layer(points []point, lower []float64, source int) (upper []float64, area *plotter.Polygon, err error) {
	upper = make([]float64, len(lower))
	var edge plotter.XYs
	for k := range lower {
		of, total := sharesOf(points[k*pictureSteps : (k+1)*pictureSteps]).all()
		upper[k] = lower[k] + float64(of[source])/float64(total)
		edge = append(edge, plotter.XY{X: float64(k * pictureSteps), Y: upper[k]},
			plotter.XY{X: float64((k + 1) * pictureSteps), Y: upper[k]})
	}
	for k := len(lower) - 1; k >= 0; k-- {
		edge = append(edge, plotter.XY{X: float64((k + 1) * pictureSteps), Y: lower[k]},
			plotter.XY{X: float64(k * pictureSteps), Y: lower[k]})
	}
	if area, err = plotter.NewPolygon(edge); err != nil {
		return nil, nil, err
	}
	area.Color, area.Width = pictureColors[source], 0
	return upper, area, nil
}

// targetLine returns the upper edge of the targets of sources 0 to source.
func targetLine(points []point, source int) (line plotter.XYs) {
	for k, p := range points[:len(points)/pictureSteps*pictureSteps] {
		sum := 0.0
		for _, x := range p.target[:source+1] {
			sum += x
		}
		if last := len(line) - 1; last > 0 && line[last].Y == sum {
			line[last].X = float64(k + 1)
			continue
		}
		line = append(line, plotter.XY{X: float64(k), Y: sum}, plotter.XY{X: float64(k + 1), Y: sum})
	}
	return line
}

// annotate labels the sources and the events of the run.
func annotate(x *plot.Plot, points []point) error {
	at := func(tokens int64) float64 {
		for k, p := range points {
			if p.taken > tokens {
				return float64(k)
			}
		}
		return float64(len(points))
	}
	var l plotter.XYLabels
	for _, t := range []struct {
		at   float64
		y    float64
		text string
	}{
		{12, .12, "code"}, {12, .34, "math"}, {12, .68, "web"},
		{at(changeAt) + 8, .93, "mix: 45, 15, 40"}, {at(restAt) + 8, .93, "code paused"},
		{at(wakeAt) + 8, .93, "code resumes"}, {at(annealAt) + 8, .93, "anneal, with a ramp"},
	} {
		l.XYs = append(l.XYs, plotter.XY{X: t.at, Y: t.y})
		l.Labels = append(l.Labels, t.text)
	}
	labels, err := plotter.NewLabels(l)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		figure.SetFont(12, &labels.TextStyle[i].Font)
	}
	x.Add(labels)
	return nil
}
