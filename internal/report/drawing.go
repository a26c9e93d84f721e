package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Colors of the page's style sheet, which knows a light and a dark shade of each.
const (
	ink    = "var(--ink)"    // text
	muted  = "var(--muted)"  // text beside the point
	grid   = "var(--grid)"   // lines behind the data
	mark   = "var(--mark)"   // data
	accent = "var(--accent)" // the data that matters
	second = "var(--second)" // data beside the first
	paper  = "var(--paper)"  // background
)

// drawing is an SVG element. Lengths are in its own units, from its left upper corner on: one as wide as its frame has text as large as the page's.
type drawing struct {
	width, height float64
	svg           *html.Node
}

type point struct{ x, y float64 }

func newDrawing(width, height float64, about string) *drawing {
	return &drawing{width, height, element("svg", []string{"viewBox", fmt.Sprintf("0 0 %.0f %.0f", width, height), "role", "img", "aria-label", about})}
}

func (d *drawing) add(shape string, attributes ...string) {
	d.svg.AppendChild(element(shape, attributes))
}

// number is a length with two decimals at the most.
func number(v float64) string {
	s := strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

func pairs(points []point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(number(p.x) + "," + number(p.y))
	}
	return b.String()
}

// box fills a rectangle between two corners.
func (d *drawing) box(color string, x0, y0, x1, y1 float64) {
	d.add("rect", "x", number(min(x0, x1)), "y", number(min(y0, y1)), "width", number(math.Abs(x1-x0)), "height", number(math.Abs(y1-y0)), "fill", color)
}

func (d *drawing) polygon(color string, points []point) {
	d.add("polygon", "points", pairs(points), "fill", color)
}

// line draws a line from one point to another; more are further attributes.
func (d *drawing) line(color string, width, x0, y0, x1, y1 float64, more ...string) {
	ends := []string{"x1", number(x0), "y1", number(y0), "x2", number(x1), "y2", number(y1)}
	d.add("line", slices.Concat(ends, []string{"stroke", color, "stroke-width", number(width)}, more)...)
}

// curve draws lines from point to point.
func (d *drawing) curve(color string, width float64, points []point) {
	d.add("polyline", "points", pairs(points), "fill", "none", "stroke", color, "stroke-width", number(width), "stroke-linejoin", "round")
}

func (d *drawing) dot(color string, radius, x, y float64) {
	d.add("circle", "cx", number(x), "cy", number(y), "r", number(radius), "fill", color)
}

// ring draws a circle that is not filled.
func (d *drawing) ring(color string, radius, x, y float64) {
	const width = 1.75
	d.add("circle", "cx", number(x), "cy", number(y), "r", number(radius-width/2), "fill", paper, "stroke", color, "stroke-width", number(width))
}

// How a text lies to the x that it is written at.
const (
	behind   = 0.0
	centered = 0.5
	before   = 1.0
)

// write writes a text, centered in height. Whatever font the reader has, it takes the room that textWidth tells.
func (d *drawing) write(x, y, aligned float64, color, s string) {
	if s == "" {
		return
	}
	w := textWidth(s)
	const capital = 0.72 // height of capitals and digits over the size of the font
	n := element("text", []string{"x", number(x - aligned*w), "y", number(y + capital*textSize/2), "fill", color, "textLength", fmt.Sprintf("%.1f", w),
		"lengthAdjust", "spacingAndGlyphs"}, text(s))
	d.svg.AppendChild(n)
}
