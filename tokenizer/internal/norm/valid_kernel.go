//go:build (amd64 || arm64) && !purego

package norm

import "loaderd/internal/cpufeature"

// validKernel reports whether the first n bytes, a multiple of 32, are UTF-8, except that the last character may be
// incomplete.
//
//go:noescape
func validKernel(s *byte, n int) bool

// validStart validates a beginning of s, up to the end of a character. It returns its length; ok is false if it is
// not UTF-8.
func validStart(s []byte) (n int, ok bool) {
	n = len(s) &^ 31
	if !cpufeature.Kernels || n == 0 {
		return 0, true
	}
	if !validKernel(&s[0], n) {
		return 0, false
	}
	for k := n - 1; k >= n-3 && s[k] >= 0x80; k-- {
		if s[k] >= 0xC0 { // the character may continue
			return k, true
		}
	}
	return n, true
}
