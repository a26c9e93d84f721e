package report

import "math"

// axis gives every value a place between two ends.
type axis struct {
	least, most float64
	place       scale
	ticks       []tick
	from, to    float64 // places of the ends in the drawing
}

// tick is a value of an axis that is written beside it.
type tick struct {
	value float64
	label string
}

// scale tells the place of a value between two ends: 0 is that of the least one, 1 that of the most.
type scale func(least, most, v float64) float64

func linear(least, most, v float64) float64 { return (v - least) / (most - least) }

func logarithmic(least, most, v float64) float64 { return math.Log(v/least) / math.Log(most/least) }

// zeroGap is the share of the axis between zero and the least positive value.
const zeroGap = 0.1

// logFromZero is a logarithmic scale from least on, with a place for zero at its left end.
func logFromZero(least float64) scale {
	return func(_, most, v float64) float64 {
		if v <= 0 {
			return 0
		}
		if most <= least {
			return 1
		}
		return zeroGap + (1-zeroGap)*logarithmic(least, most, max(v, least))
	}
}

// at is the place of a value in the drawing.
func (a axis) at(v float64) float64 { return a.from + a.place(a.least, a.most, v)*(a.to-a.from) }

// Room around a plot's area.
const (
	tickLength = 5
	axisHeight = 26 // ticks and labels below it
	labelGap   = 6  // between labels and area at the left
)

// plot is a drawing with an area that axes span: x from the left on, y from below.
type plot struct {
	*drawing
	x, y axis
}

// frame leaves room for the axes' labels: those of y at the left of the drawing, those of x below it, which do not leave it at the right. Above it
// room is left as asked.
func (p *plot) frame(above float64) {
	left := 0.0
	for _, t := range p.y.ticks {
		left = max(left, textWidth(t.label)+labelGap)
	}
	p.span(left, p.width-2)
	p.y.from, p.y.to = p.height-axisHeight, above
}

// span gives x its ends, the right one such that no label leaves the drawing.
func (p *plot) span(from, to float64) {
	p.x.from, p.x.to = from, to
	for _, t := range p.x.ticks {
		if share := p.x.place(p.x.least, p.x.most, t.value); share > 0 {
			p.x.to = min(p.x.to, from+(p.width-textWidth(t.label)/2-from)/share)
		}
	}
}

// gridX draws a line upward, and the label below, for every tick of x.
func (p *plot) gridX() {
	for _, t := range p.x.ticks {
		at := p.x.at(t.value)
		p.line(grid, 1, at, p.y.from, at, p.y.to)
	}
	p.labelX()
}

// labelX writes the labels of x below their ticks.
func (p *plot) labelX() {
	for _, t := range p.x.ticks {
		at := p.x.at(t.value)
		p.line(grid, 1, at, p.y.from, at, p.y.from+tickLength)
		p.write(at, p.y.from+tickLength+2+textSize/2, centered, muted, t.label)
	}
}

// gridY draws a line across, and the label at its left, for every tick of y.
func (p *plot) gridY() {
	for _, t := range p.y.ticks {
		at := p.y.at(t.value)
		p.line(grid, 1, p.x.from, at, p.x.to, at)
		p.write(p.x.from-labelGap, at, before, muted, t.label)
	}
}

// border draws the line of x.
func (p *plot) border() { p.line(grid, 1, p.x.from, p.y.from, p.x.to, p.y.from) }
