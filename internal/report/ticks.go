package report

import "math"

// decades returns the powers of ten from least to most.
func decades(least, most float64, label func(float64) string) (ticks []tick) {
	for e := math.Ceil(math.Log10(least) - 1e-9); e <= math.Log10(most)+1e-9; e++ {
		v := math.Pow10(int(e))
		ticks = append(ticks, tick{v, label(v)})
	}
	return ticks
}

// doublings returns the powers of two from least to most.
func doublings(least, most float64) (ticks []tick) {
	for e := math.Ceil(math.Log2(least) - 1e-9); e <= math.Log2(most)+1e-9; e++ {
		ticks = append(ticks, tick{math.Exp2(e), length(int(math.Exp2(e)))})
	}
	return ticks
}

// steps returns round values from zero to most, about so many.
func steps(most float64, about int, label func(float64) string) (ticks []tick) {
	unit := math.Pow10(int(math.Floor(math.Log10(most / float64(max(about, 1))))))
	step := 10 * unit
	for _, f := range []float64{1, 2, 5} {
		if most/(f*unit) <= float64(about) {
			step = f * unit
			break
		}
	}
	for i := 0; float64(i)*step <= most*1.0000001; i++ {
		ticks = append(ticks, tick{float64(i) * step, label(float64(i) * step)})
	}
	return ticks
}

// fit returns as many of the ticks as have room for their text, evenly chosen from the last on; a zero in front stays.
func fit(ticks []tick, at func(float64) float64) []tick {
	zero := len(ticks) > 0 && ticks[0].value == 0
	for every := 1; every < len(ticks); every++ {
		var some []tick
		for i, t := range ticks {
			if (len(ticks)-1-i)%every == 0 || i == 0 && zero {
				some = append(some, t)
			}
		}
		if zero && len(some) > 2 && overlap(some[0], some[1], at) {
			some = append(some[:1], some[2:]...)
		}
		if !overlaps(some, at) {
			return some
		}
	}
	return ticks[max(len(ticks)-1, 0):]
}

func overlaps(ticks []tick, at func(float64) float64) bool {
	for i := 1; i < len(ticks); i++ {
		if overlap(ticks[i-1], ticks[i], at) {
			return true
		}
	}
	return false
}

func overlap(a, b tick, at func(float64) float64) bool {
	return at(a.value)+textWidth(a.label)/2+10 > at(b.value)-textWidth(b.label)/2
}
