//go:build !purego

package pretokenize

// asciiClasses has bit k set for each character of class k, in the order of masks. classifyKernel reads it.
var asciiClasses = func() (t [128]uint8) {
	for c := range t {
		for k := range 8 {
			t[c] |= uint8(byteClass[c]>>(8*k)&1) << k
		}
	}
	return t
}()
