package similarity

import (
	"errors"
	"fmt"
	"math"
)

// NormalizeVector returns a vector in the form that dense compares: scaled to length 127 and rounded. So the product of
// two vectors is proportional to the cosine of their angle, independent of their lengths. A vector of zeros is returned
// unchanged and is related to nothing.
func NormalizeVector[T int8 | float32](v []T, dimension int) ([]int8, error) {
	if len(v) != dimension {
		return nil, fmt.Errorf("an embedding of %d numbers, the run's have %d", len(v), dimension)
	}
	var sum float64
	for _, x := range v {
		sum += float64(float64(x) * float64(x)) // the conversion prevents a fused sum, which differs between machines
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, errors.New("an embedding with a number that is not finite")
	}
	out := make([]int8, dimension)
	if sum == 0 {
		return out, nil
	}
	scale := 127 / math.Sqrt(sum)
	for i, x := range v {
		out[i] = int8(math.RoundToEven(float64(x) * scale))
	}
	return out, nil
}
