package pretokenize

// SplitPoints has the pairs of bytes between which a text may be split into separately merged words: before a
// character, if no token that merges make covers the place, and where the reference starts a word.
type SplitPoints struct {
	at [1 << 16 / 64]uint64 // byte before<<8 | byte after
}

func (c *SplitPoints) set(before, after int)    { c.at[before<<2|after>>6] |= 1 << (after & 63) }
func (c *SplitPoints) remove(before, after int) { c.at[before<<2|after>>6] &^= 1 << (after & 63) }

// Has reports whether a text may be split between two bytes.
func (c *SplitPoints) Has(before, after byte) bool {
	return c.at[uint(before)<<2|uint(after)>>6]>>(after&63)&1 == 1
}

// NewSplitPoints finds these pairs: those before spaces, if words start there, and those that may permits, if it is not
// nil and none of the texts that merges make covers the place.
func NewSplitPoints(words bool, made []string, may func(before, after int) bool) *SplitPoints {
	k := &SplitPoints{}
	if may != nil {
		for before := range 256 {
			for after := range 256 {
				inside := after >= 0x80 && after < 0xC0 // of a character
				if !inside && may(before, after) {
					k.set(before, after)
				}
			}
		}
		for _, text := range made {
			for i := 1; i < len(text); i++ {
				k.remove(int(text[i-1]), int(text[i]))
			}
		}
	}
	if words {
		for before := range 256 {
			k.set(before, ' ')
		}
	}
	return k
}

// Split writes the ends of the words of s from i on to w, until it is full or s ends. It returns their number and the
// end of the last.
func (c *SplitPoints) Split(s []byte, i int, w *Batch) (n, end int) {
	w.HasNonASCII = true
	before := uint(s[i])
	j := i + 1
	for ; j < len(s) && n < BatchSize-1; j++ {
		after := uint(s[j])
		w.Ends[n] = int32(j)
		n += int(c.at[before<<2|after>>6] >> (after & 63) & 1)
		before = after
	}
	if j == len(s) {
		w.Ends[n] = int32(j)
		n++
	}
	return n, int(w.Ends[n-1])
}
