package pretokenize

// CrossSet determines for a place before a lead byte whether some token may cover it. If none can, both sides of a
// word merge separately, so the long words of scripts without spaces are split into short pieces that repeat.
//
// The view of a token at a place is its last one or two bytes before the place and its first one or two after it. The
// set has these views of every token as bits, with a mark where the token starts or ends. If none of a place's four
// possible views is in the set, no symbol ever covers the place. A false positive only prevents a split.
type CrossSet struct{ bit [1 << (crossLog - 6)]uint64 }

const (
	crossLog  = 21
	tokenEdge = 256 // the token does not extend to this byte
)

// viewBit returns the word and the bit of one view.
func (c *CrossSet) viewBit(b2, b1, a1, a2 uint32) (*uint64, uint64) {
	h := (uint64(b2)<<27 | uint64(b1)<<18 | uint64(a1)<<9 | uint64(a2)) * 0x9E3779B97F4A7C15 >> (64 - crossLog)
	return &c.bit[h>>6], 1 << (h & 63)
}

// Add adds the views of a token.
func (c *CrossSet) Add(token string) {
	for p := 1; p < len(token); p++ {
		if token[p] < 0xC0 {
			continue
		}
		b2, a2 := uint32(tokenEdge), uint32(tokenEdge)
		if p >= 2 {
			b2 = uint32(token[p-2])
		}
		if p+1 < len(token) {
			a2 = uint32(token[p+1])
		}
		v, b := c.viewBit(b2, uint32(token[p-1]), uint32(token[p]), a2)
		*v |= b
	}
}

// Has reports whether a token may cover the place before word[p], 0 < p < len(word).
func (c *CrossSet) Has(word []byte, p int) bool {
	b1, a1 := uint32(word[p-1]), uint32(word[p])
	v, b := c.viewBit(tokenEdge, b1, a1, tokenEdge)
	hit := *v & b
	b2, a2 := uint32(tokenEdge), uint32(tokenEdge)
	if p >= 2 {
		b2 = uint32(word[p-2])
		v, b = c.viewBit(b2, b1, a1, tokenEdge)
		hit |= *v & b
	}
	if p+1 < len(word) {
		a2 = uint32(word[p+1])
		v, b = c.viewBit(tokenEdge, b1, a1, a2)
		hit |= *v & b
	}
	v, b = c.viewBit(b2, b1, a1, a2)
	return hit|*v&b != 0
}
