package relatedness

import "math"

// zipfMLE returns the exponent a of P(count = f) ~ f^-a for f = 1, 2, ...: 1 + n / sum ln(f / (fmin - 1/2)), Clauset,
// Shalizi and Newman, Power-law distributions in empirical data, eq. 3.7, with fmin = 1.
func zipfMLE(counts []float64) float64 {
	var sum float64
	for _, f := range counts {
		sum += math.Log(f / .5)
	}
	return 1 + float64(len(counts))/sum
}

// zipfZeta returns the same exponent by maximum likelihood for P(count = f) = f^-a / zeta(a): the a for which
// -zeta'(a) / zeta(a) is the mean of ln f (eq. 3.6). It searches between 1.02 and 4.
func zipfZeta(counts []float64) float64 {
	var mean float64
	for _, f := range counts {
		mean += math.Log(f) / float64(len(counts))
	}
	low, high := 1.02, 4.0
	for range 40 {
		a := (low + high) / 2
		if zeta, slope := zeta(a); slope/zeta > mean {
			low = a
		} else {
			high = a
		}
	}
	return (low + high) / 2
}

// zeta returns zeta(a) and -zeta'(a), as the sum of the first terms and the Euler-Maclaurin formula for the
// remainder.
func zeta(a float64) (value, slope float64) {
	const terms = 200
	for n := 1.0; n < terms; n++ {
		t := math.Pow(n, -a)
		value += t
		slope += t * math.Log(n)
	}
	log := math.Log(terms)
	rest := math.Pow(terms, 1-a)
	last := math.Pow(terms, -a)
	value += rest/(a-1) + last/2
	slope += rest*(log/(a-1)+1/((a-1)*(a-1))) + last*log/2
	return value, slope
}
