package tokenizer

// Encoder holds the scratch space and the caches of one goroutine: about 9 MB, plus what the longest recent word or
// text needed, up to some MB.
type Encoder struct {
	m       *Model
	hot     *hotWords
	brief   *briefWords
	cache   *cache
	shared  *sharedWords
	scratch longScratch
	valid   []byte // a text whose invalid UTF-8 is replaced
	steps   stepper
	marked  []byte // a text in which spaces stand for their mark
	plain   []byte // a text that has its space put before it
	found   wordBatch
	cuts    [batch]int32 // ends of words, of long ones those of their pieces
	lookup  lookup
}

// keepBytes is the largest text buffer that is kept from text to text.
const keepBytes = 1 << 20

// NewEncoder makes an encoder for one goroutine.
func (m *Model) NewEncoder() *Encoder {
	e := &Encoder{m: m, shared: m.shared(), steps: newStepper(m.def.insideSteps()), hot: new(hotWords), brief: new(briefWords), cache: new(cache)}
	onHugePages(e.brief[:])
	onHugePages(e.cache[:])
	for _, s := range m.seeds {
		if ids, ok := packIDs([]int32{s.id}); ok {
			e.remember(s.word, ids)
		}
	}
	return e
}

// Encode appends the ids of a text to dst. Any bytes will do: of invalid UTF-8 each maximal subpart counts as one
// U+FFFD, as in Python's bytes.decode(errors="replace"). It allocates nothing once dst and the scratch have grown.
func (e *Encoder) Encode(dst []int32, text []byte) []int32 {
	if !validUTF8(text) {
		e.valid = appendValid(keep(e.valid), text)
		text = e.valid
	}
	d := e.m.def
	if d.addSpecial {
		dst = append(dst, d.template.before...)
	}
	cut := addedCutter{set: &e.m.raw, s: text, asText: d.specialAsText}
	for {
		first := cut.done == 0
		section, id := cut.next()
		if len(section) > 0 {
			dst = e.between(dst, section, first)
		}
		if id < 0 {
			break
		}
		dst = append(dst, id)
	}
	if d.addSpecial {
		dst = append(dst, d.template.behind...)
	}
	e.trim()
	return dst
}

// trim gives back what a large text needed.
func (e *Encoder) trim() {
	e.valid, e.marked, e.plain = keep(e.valid), keep(e.marked), keep(e.plain)
	if cap(e.lookup.many) > keepNodes {
		e.lookup.many = nil
	}
	e.steps.trim()
}

func keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

// between encodes what lies between the added tokens that are looked for in the text as it is.
func (e *Encoder) between(dst []int32, s []byte, first bool) []int32 {
	s = e.steps.normalize(s)
	cut := addedCutter{set: &e.m.normalized, s: s, asText: e.m.def.specialAsText}
	for {
		first := first && cut.done == 0
		section, id := cut.next()
		if len(section) > 0 {
			dst = e.words(dst, section, first)
		}
		if id < 0 {
			return dst
		}
		dst = append(dst, id)
	}
}

// words encodes text without added tokens. first says that it begins where the text does.
func (e *Encoder) words(dst []int32, s []byte, first bool) []int32 {
	c := e.m.def.characters
	if c != nil && c.late && c.mark != " " {
		s = replaceAll(&e.marked, s, e.m.mark, []byte{' '})
	}
	if c == nil && e.m.def.family.pieces != nil {
		return e.spacedPieces(dst, s)
	}
	if e.m.def.prefixSpace && s[0] != ' ' && (first || c == nil || !c.firstOnly) {
		s = e.spaced(s)
	}
	if c != nil {
		return e.cutWords(dst, s)
	}
	return e.splitWords(dst, s)
}

// spaced is s with a space before it. It is valid until the next call.
func (e *Encoder) spaced(s []byte) []byte {
	e.plain = append(append(keep(e.plain), ' '), s...)
	return e.plain
}

// spacedPieces encodes text of which each piece gets a space before it, if it has none.
func (e *Encoder) spacedPieces(dst []int32, s []byte) []int32 {
	var open openPieces
	for i := 0; i < len(s); {
		end := e.m.def.family.pieces.end(s, i, &open)
		piece := s[i:end]
		if piece[0] != ' ' {
			piece = e.spaced(piece)
		}
		dst = e.splitWords(dst, piece)
		i = end
	}
	return dst
}

// splitWords encodes text that is cut by patterns.
func (e *Encoder) splitWords(dst []int32, s []byte) []int32 { return e.each(&e.m.split, dst, s) }

// each encodes text batch by batch of the words that by cuts it into.
func (e *Encoder) each(by interface {
	split(s []byte, i int, w *wordBatch) (n, end int)
}, dst []int32, s []byte) []int32 {
	for i := 0; i < len(s); {
		n, end := by.split(s, i, &e.found)
		ends := e.found.ends[:n]
		if e.found.wide && len(e.m.whole) == 0 && longest(i, ends) > cutMin {
			dst = e.inPieces(dst, s, i, ends)
		} else {
			dst = e.lookUp(dst, s, i, ends)
		}
		i = end
	}
	return dst
}

// cutMin is the longest word that is not cut into pieces that merge on their own: they come again more often than it. Where
// some words are one token whatever merging gives, no word is cut: a piece might be taken for one of them.
const cutMin = 31

// longest is the length of the longest of the words that start at i and end at ends.
func longest(i int, ends []int32) int32 {
	most, from := int32(0), int32(i)
	for _, end := range ends {
		most = max(most, end-from)
		from = end
	}
	return most
}

// inPieces encodes the words of s that start at i and end at ends, the long ones in pieces.
func (e *Encoder) inPieces(dst []int32, s []byte, i int, ends []int32) []int32 {
	n, from := 0, i
	put := func(end int) {
		e.cuts[n] = int32(end)
		if n++; n == batch {
			dst = e.lookUp(dst, s, i, e.cuts[:n])
			n, i = 0, end
		}
	}
	for _, end := range ends {
		if w := s[from:end]; len(w) > cutMin {
			for p := 1; p < len(w); p++ {
				if w[p] >= 0xC0 && !e.m.cross.has(w, p) {
					put(from + p)
				}
			}
		}
		put(int(end))
		from = int(end)
	}
	return e.lookUp(dst, s, i, e.cuts[:n])
}
