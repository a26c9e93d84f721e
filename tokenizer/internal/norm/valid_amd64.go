//go:build !purego

package norm

import "loaderd/internal/cpufeature"

// validAVX2 reports whether the first n bytes, a multiple of 32, are UTF-8, perhaps without the end of the last
// character.
//
//go:noescape
func validAVX2(s *byte, n int) bool

// validStart checks a beginning of s, up to the end of a character. It returns its length; it is not ok if that is not
// UTF-8.
func validStart(s []byte) (n int, ok bool) {
	n = len(s) &^ 31
	if !cpufeature.AVX2 || n == 0 {
		return 0, true
	}
	if !validAVX2(&s[0], n) {
		return 0, false
	}
	for k := n - 1; k >= n-3 && s[k] >= 0x80; k-- {
		if s[k] >= 0xC0 { // it may go on
			return k, true
		}
	}
	return n, true
}
