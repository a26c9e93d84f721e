package tokenizer

import (
	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/wordcache"
)

// Encoder has the scratch space and the caches of one goroutine: up to 13 MB, plus up to some MB for the longest
// recent word or text.
type Encoder struct {
	m      *Model
	words  *wordcache.Encoder
	valid  []byte // a text whose invalid UTF-8 is replaced
	steps  norm.Stepper
	marked []byte // a text in which spaces represent their mark
	plain  []byte // a text with a space put before it
}

// NewEncoder returns an encoder for one goroutine.
func (m *Model) NewEncoder() *Encoder {
	return &Encoder{m: m, words: m.words.NewEncoder(), steps: norm.NewStepper(m.def.InsideSteps())}
}

// Encode appends the ids of a text to dst. It accepts any bytes: each maximal subpart of invalid UTF-8 counts as one
// U+FFFD, as in Python's bytes.decode(errors="replace"). It allocates nothing once dst and the scratch have grown.
func (e *Encoder) Encode(dst []int32, text []byte) []int32 {
	return e.EncodePart(dst, text, true, true)
}

// EncodePart is Encode for a part of a text, which is encoded separately. first and last report whether the part is
// at the beginning and at the end of the text, and so gets what the tokenizer adds there.
func (e *Encoder) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	if !norm.Valid(text) {
		e.valid = norm.AppendValid(norm.Keep(e.valid), text)
		text = e.valid
	}
	t := &e.m.def.Template
	if e.m.addSpecial && first {
		dst = append(dst, t.Before...)
	}
	cut := added.NewCutter(&e.m.raw, text, e.m.specialAsText)
	for {
		first := first && cut.AtStart()
		section, id := cut.Next()
		if len(section) > 0 {
			dst = e.between(dst, section, first)
		}
		if id < 0 {
			break
		}
		dst = append(dst, id)
	}
	if e.m.addSpecial && last {
		dst = append(dst, t.Behind...)
	}
	e.trim()
	return dst
}

// trim releases memory that a large text needed.
func (e *Encoder) trim() {
	e.valid, e.marked, e.plain = norm.Keep(e.valid), norm.Keep(e.marked), norm.Keep(e.plain)
	e.words.Trim()
	e.steps.Trim()
}

// between encodes the text between the added tokens of the raw text.
func (e *Encoder) between(dst []int32, s []byte, first bool) []int32 {
	s = e.steps.Normalize(s)
	cut := added.NewCutter(&e.m.normalized, s, e.m.specialAsText)
	for {
		first := first && cut.AtStart()
		section, id := cut.Next()
		if len(section) > 0 {
			dst = e.section(dst, section, first)
		}
		if id < 0 {
			return dst
		}
		dst = append(dst, id)
	}
}

// section encodes text without added tokens. first reports that it starts where the text does.
func (e *Encoder) section(dst []int32, s []byte, first bool) []int32 {
	c := e.m.def.Characters
	if c != nil && c.Late && c.Mark != " " {
		s = norm.ReplaceAll(&e.marked, s, e.m.mark, []byte{' '})
	}
	if c == nil && e.m.def.Family.Pieces != nil {
		return e.spacedPieces(dst, s)
	}
	if e.m.def.PrefixSpace && s[0] != ' ' && (first || c == nil || !c.FirstOnly) {
		s = e.spaced(s)
	}
	if c != nil {
		return e.cutWords(dst, s)
	}
	return e.words.Encode(&e.m.split, dst, s)
}

// spaced returns s with a space before it, valid until the next call.
func (e *Encoder) spaced(s []byte) []byte {
	e.plain = append(append(norm.Keep(e.plain), ' '), s...)
	return e.plain
}

// spacedPieces encodes text. Each of its pieces gets a space before it, if it starts with none.
func (e *Encoder) spacedPieces(dst []int32, s []byte) []int32 {
	var open pretokenize.OpenPieces
	for i := 0; i < len(s); {
		end := e.m.def.Family.Pieces.End(s, i, &open)
		piece := s[i:end]
		if piece[0] != ' ' {
			piece = e.spaced(piece)
		}
		dst = e.words.Encode(&e.m.split, dst, piece)
		i = end
	}
	return dst
}

// cutWords encodes text of a model whose merging starts with characters.
func (e *Encoder) cutWords(dst []int32, s []byte) []int32 {
	if id, ok := e.m.texts[string(s)]; ok {
		return append(dst, id)
	}
	return e.words.Encode(e.m.cuts, dst, s)
}
