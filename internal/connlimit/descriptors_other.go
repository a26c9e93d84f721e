//go:build !unix

package connlimit

import "math"

// Descriptors returns how many descriptors the process may have open: there is no bound here.
func Descriptors() int { return math.MaxInt32 }
