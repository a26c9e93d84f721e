// Command charts draws the last run of the benchmarks: for each area a bar chart of the ratios to the baselines.
//
//	bin/charts -run docs/results/bench.json -folder docs/results/img
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"loaderd/bench/figure"
)

// area is a chart: the measures whose names begin with one of the prefixes.
type area struct {
	name     string // bench-NAME.svg
	prefixes []string
}

var areas = []area{
	{"encoding", []string{"encoding "}},
	{"serving", []string{"Flight ", "wait for a step", "text in JetStream", "StepLoader "}},
	{"start", []string{"loading ", "start of ", "memory of ", "CPU of "}},
}

// measure is a measure of a run, as far as it is drawn.
type measure struct {
	Name   string  `json:"measure"`
	Ratio  float64 `json:"ratio"` // to the baseline
	Better string  `json:"better"`
}

// gain returns by how many times the measure is better than its baseline.
func (m measure) gain() float64 {
	if m.Better == "lower" {
		return 1 / m.Ratio
	}
	return m.Ratio
}

func main() {
	run := flag.String("run", "docs/results/bench.json", "`file` of the run")
	folder := flag.String("folder", "docs/results/img", "`folder` for the charts")
	flag.Parse()
	if err := drawAll(*run, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func drawAll(run, folder string) error {
	measures, err := read(run)
	if err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	for _, a := range areas {
		canvas, err := a.draw(measures)
		if err == nil {
			err = figure.Write(canvas, filepath.Join(folder, "bench-"+a.name+".svg"))
		}
		if err != nil {
			return fmt.Errorf("draw %s: %w", a.name, err)
		}
	}
	return nil
}

// read returns the measures of a run that have a ratio.
func read(name string) ([]measure, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var run struct {
		Measures []measure `json:"measures"`
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(run.Measures, func(m measure) bool { return m.Ratio <= 0 }), nil
}

const (
	width     = 7 * vg.Inch
	rowHeight = 0.22 * vg.Inch
	margin    = 0.7 * vg.Inch // of axis and title
	barHeight = 9
)

var (
	betterColor = color.RGBA{R: 0x2a, G: 0x78, B: 0xd6, A: 0xff}
	worseColor  = color.RGBA{R: 0xc4, G: 0x5a, B: 0x28, A: 0xff}
)

// draw returns a chart, the first measure on top.
func (a area) draw(all []measure) (*vgsvg.Canvas, error) {
	var names []string
	var better, worse plotter.Values
	for _, m := range slices.Backward(all) {
		if !slices.ContainsFunc(a.prefixes, func(p string) bool { return strings.HasPrefix(m.Name, p) }) {
			continue
		}
		names = append(names, strings.TrimPrefix(m.Name, "encoding "))
		better, worse = append(better, 0), append(worse, 0)
		if last := len(names) - 1; m.gain() >= 1 {
			better[last] = m.gain()
		} else {
			worse[last] = m.gain()
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the run has no such measures")
	}
	p := plot.New()
	p.X.Label.Text = "times the baseline; longer is better"
	p.X.Min = 0
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	figure.SetFont(10, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font)
	p.NominalY(names...)
	for _, x := range []struct {
		values plotter.Values
		color  color.Color
	}{{better, betterColor}, {worse, worseColor}} {
		bars, err := plotter.NewBarChart(x.values, barHeight)
		if err != nil {
			return nil, err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, x.color, 0
		p.Add(bars)
	}
	baseline, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(names)) - 0.5}})
	if err != nil {
		return nil, err
	}
	baseline.Dashes = []vg.Length{4, 3}
	p.Add(baseline)
	canvas := vgsvg.New(width, margin+rowHeight*vg.Length(len(names)))
	p.Draw(draw.Crop(draw.New(canvas), 6, -14, 6, -6))
	return canvas, nil
}
