package report

import (
	"fmt"
	"math"
)

type rgb [3]uint8

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// text is the color of text on c.
func (c rgb) text() string {
	if 0.299*float64(c[0])+0.587*float64(c[1])+0.114*float64(c[2]) > 120 {
		return "#111111"
	}
	return "#ffffff"
}

// rampStops run from viridis' blue to its yellow, readable on light and on dark paper and by the color-blind.
var rampStops = []rgb{{0x46, 0x3f, 0x8a}, {0x31, 0x6c, 0x8e}, {0x21, 0x96, 0x8a}, {0x5e, 0xc1, 0x62}, {0xdc, 0xd8, 0x3b}}

// ramp returns color k of n from dark to bright.
func ramp(k, n int) (c rgb) {
	at := float64(k) / float64(max(n-1, 1)) * float64(len(rampStops)-1)
	i := min(int(at), len(rampStops)-2)
	for j := range c {
		a, b := float64(rampStops[i][j]), float64(rampStops[i+1][j])
		c[j] = uint8(math.Round(a + (at-float64(i))*(b-a)))
	}
	return c
}
