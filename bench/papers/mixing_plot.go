package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"loaderd/bench/figure"
)

// panel is one plot of the figure: a measure by window size, with a line for each atom size. The global shuffle is
// dashed.
type panel struct {
	title string
	least float64 // of the y axis
	value func(mixed) float64
}

var panels = []panel{
	{"displacement, mean", 1e-6, func(m mixed) float64 { return m.displacement }},
	{"neighbours of one document", 1e-6, func(m mixed) float64 { return m.neighbours }},
	{"atoms of a step that share one", 1e-4, func(m mixed) float64 { return m.sharing }},
}

// atomColors are the colors of atomSizes, starting with the smallest.
var atomColors = []color.Color{color.RGBA{253, 166, 54, 255}, color.RGBA{225, 100, 98, 255},
	color.RGBA{177, 42, 144, 255},
	color.RGBA{106, 0, 168, 255}, color.RGBA{13, 8, 135, 255}}

// drawMixing draws the figure on white, for pages of any color.
func drawMixing(all []mixed, file string) error {
	const width, height = 290, 240
	whole := vgsvg.New(vg.Length(len(panels)*width), height)
	for i, p := range panels {
		left := vg.Length(i * width)
		c := draw.Crop(draw.New(whole), left+6, left+width-vg.Length(len(panels)*width)-6, 6, -6)
		x, err := p.plot(all)
		if err != nil {
			return err
		}
		x.Draw(c)
	}
	return figure.Write(whole, file)
}

func (p panel) plot(all []mixed) (*plot.Plot, error) {
	x := plot.New()
	x.Title.Text = p.title
	x.X.Label.Text = "window in atoms (dashed: all)"
	x.X.Padding, x.Y.Padding = 0, 0
	x.X.Scale, x.Y.Scale = plot.LogScale{}, plot.LogScale{}
	x.X.Min, x.X.Max, x.Y.Min, x.Y.Max = 16, 65536, p.least, 1
	x.X.Tick.Marker, x.Y.Tick.Marker = windowTicks(), shareTicks(p.least)
	x.Legend.ThumbnailWidth, x.Legend.XOffs, x.Legend.YOffs = 14, -4, 4
	figure.SetFont(10, &x.Title.TextStyle.Font, &x.X.Label.TextStyle.Font,
		&x.X.Tick.Label.Font, &x.Y.Tick.Label.Font, &x.Legend.TextStyle.Font)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{230}, color.Gray{230}
	x.Add(grid)
	for k, atom := range atomSizes {
		var points, global plotter.XYs
		for _, m := range all {
			switch {
			case m.atom != atom || m.window == 0: // a window of 0 is not on a logarithmic axis
			case m.window == everything:
				global = plotter.XYs{{X: x.X.Min, Y: p.value(m)}, {X: x.X.Max, Y: p.value(m)}}
			default:
				points = append(points, plotter.XY{X: float64(m.window), Y: p.value(m)})
			}
		}
		for i, xys := range []plotter.XYs{points, global} {
			l, err := plotter.NewLine(xys)
			if err != nil {
				return nil, err
			}
			l.Color, l.Width = atomColors[k], 1.5
			if i == 1 {
				l.Width, l.Dashes = 0.75, []vg.Length{4, 3}
			} else if p.title == panels[0].title {
				x.Legend.Add(fmt.Sprintf("%v rows ", atom), l)
			}
			x.Add(l)
		}
	}
	return x, nil
}

func windowTicks() plot.ConstantTicks {
	var out plot.ConstantTicks
	for _, w := range windows {
		if w > 0 {
			label := windowName(w)
			if w >= 1024 {
				label = fmt.Sprintf("%dk", w/1024)
			}
			out = append(out, plot.Tick{Value: float64(w), Label: label})
		}
	}
	return out
}

func shareTicks(least float64) plot.ConstantTicks {
	var out plot.ConstantTicks
	for e := math.Round(math.Log10(least)); e <= 0; e++ {
		out = append(out, plot.Tick{Value: math.Pow10(int(e)), Label: fmt.Sprintf("%g %%", math.Pow10(int(e)+2))})
	}
	return out
}
