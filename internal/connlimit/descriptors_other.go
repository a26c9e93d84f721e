//go:build !unix

package connlimit

import "math"

// Descriptors returns how many descriptors the process may have open. This system has no bound.
func Descriptors() int { return math.MaxInt32 }
