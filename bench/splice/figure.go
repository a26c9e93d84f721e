package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"loaderd/bench/figure"
	"loaderd/bench/record"
	"loaderd/internal/relatedness"
)

// drawn are the variants of the figure, with their colors.
var drawn = []struct {
	variant, label string
	color          color.Color
}{
	{variants[0].name, "example packing", color.RGBA{0x8f, 0x9e, 0xae, 255}},
	{variants[2].name, "splice, trim", color.RGBA{0xd0, 0x5f, 0x00, 255}},
	{variants[3].name, "splice", color.RGBA{0x00, 0x67, 0xa9, 255}},
}

// drawFigure draws, on white, the distribution of the exponents of single rows, and the repetition of tokens in a
// row.
func drawFigure(packings []record.Packing, file string) error {
	figures := map[string]relatedness.Metrics{}
	for _, x := range packings {
		figures[x.Variant] = x.Related
	}
	const width, height = 400, 260
	whole := vgsvg.New(2*width, height)
	for i, panel := range []func(map[string]relatedness.Metrics) (*plot.Plot, error){exponents, counts} {
		p, err := panel(figures)
		if err != nil {
			return err
		}
		left := vg.Length(i * width)
		p.Draw(draw.Crop(draw.New(whole), left+6, left+width-2*width-10, 6, -6))
	}
	return figure.Write(whole, file)
}

func newPanel(title, x string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, x
	p.X.Padding, p.Y.Padding = 0, 0
	p.Legend.Top, p.Legend.ThumbnailWidth, p.Legend.XOffs, p.Legend.YOffs = true, 14, -4, -4
	figure.SetFont(10, &p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	return p
}

// addLines adds a line for each variant.
func addLines(p *plot.Plot, figures map[string]relatedness.Metrics,
	points func(relatedness.Metrics) plotter.XYs) error {
	for _, d := range drawn {
		line, err := plotter.NewLine(points(figures[d.variant]))
		if err != nil {
			return err
		}
		line.Color, line.Width = d.color, 1.75
		p.Add(line)
		p.Legend.Add(d.label+" ", line)
	}
	return nil
}

func exponents(figures map[string]relatedness.Metrics) (*plot.Plot, error) {
	const from, bin, bins = 1.2, 0.02, 35
	p := newPanel("rows by the exponent of their token counts", "exponent; lower is burstier")
	p.X.Min, p.X.Max, p.Y.Min = from, from+bin*bins, 0
	return p, addLines(p, figures, func(f relatedness.Metrics) plotter.XYs {
		xys := make(plotter.XYs, bins)
		for i := range xys {
			xys[i].X = from + bin*(float64(i)+0.5)
		}
		for _, z := range f.Zipfs {
			xys[min(max(int((z-from)/bin), 0), bins-1)].Y += 1 / float64(len(f.Zipfs))
		}
		return xys
	})
}

func counts(figures map[string]relatedness.Metrics) (*plot.Plot, error) {
	p := newPanel("tokens of a row that occur in it at least this often", "times in the row")
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 1000, 1e-4, 1
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.ConstantTicks{{Value: 1e-4, Label: "0.01 %"},
		{Value: 1e-3, Label: "0.1 %"},
		{Value: 1e-2, Label: "1 %"}, {Value: 1e-1, Label: "10 %"}, {Value: 1, Label: "100 %"}}
	return p, addLines(p, figures, func(f relatedness.Metrics) (xys plotter.XYs) {
		tail := 0.0
		for i := len(f.Counts) - 1; i >= 0; i-- {
			if tail += f.Counts[i]; tail >= p.Y.Min && float64(i+1) <= p.X.Max {
				xys = append(xys, plotter.XY{X: float64(i + 1), Y: tail})
			}
		}
		return xys
	})
}
