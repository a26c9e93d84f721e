package wordcache

import "math/bits"

// placeInLine has the place of the ids in a line, by kind and by which of the line's four keys are equal, or
// noPlace.
var placeInLine = func() (t [2 * 16]uint8) {
	for same := range 16 {
		t[same], t[middleBit+same] = uint8(bits.TrailingZeros(uint(same))*8), noPlace
		switch {
		case same&3 == 3:
			t[middleBit+same] = 0
		case same>>2 == 3:
			t[middleBit+same] = 16
		}
	}
	t[0] = noPlace
	return t
}()

const noPlace = 0x80

// matchPlain is match in plain Go: the specification of the kernel.
func matchPlain(t []line, keys []lineKey, places []uint32, missing *[batchSize]uint16, n, first int) int {
	for k := range keys {
		key, p := &keys[k], places[k]
		l := &t[p/lineBytes]
		same := 0
		for j := range l.key {
			if l.key[j] == key[j%2] {
				same |= 1 << j
			}
		}
		at := placeInLine[p&middleBit|uint32(same)]
		if at == noPlace {
			missing[n&(batchSize-1)] = uint16(first + k)
			n++
			continue
		}
		places[k] = p&^(lineBytes-1) + uint32(at)
	}
	return n
}
