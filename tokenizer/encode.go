package tokenizer

import (
	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/sentencepiece"
	"loaderd/tokenizer/internal/wordcache"
)

// Encoder has the scratch space and the caches of one goroutine: up to 13 MB, plus up to some MB for the longest
// recent word or text.
type Encoder struct {
	model        *Model
	words        *wordcache.Encoder
	validText    []byte // a text whose invalid UTF-8 is replaced
	steps        norm.Stepper
	marked       []byte                 // a text in which spaces represent their mark
	prefixedText []byte                 // a text with a space put before it
	pieces       *sentencepiece.Encoder // of a SentencePiece model
	wordIDs      []int32                // of the words of a part of a text
}

// NewEncoder returns an encoder for one goroutine.
func (m *Model) NewEncoder() *Encoder {
	e := &Encoder{model: m, words: m.words.NewEncoder(), steps: norm.NewStepper(m.def.EncoderSteps())}
	if m.def.SentencePiece != nil {
		e.pieces = m.def.SentencePiece.NewEncoder()
	}
	return e
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
		e.validText = norm.AppendValid(norm.ReuseBuffer(e.validText), text)
		text = e.validText
	}
	if e.pieces != nil {
		dst = e.encodeSentencePiece(dst, text)
		e.trim()
		return dst
	}
	t := &e.model.def.Template
	if e.model.addSpecial && first {
		dst = append(dst, t.Before...)
	}
	cut := added.NewCutter(&e.model.raw, text, e.model.specialAsText)
	for {
		first := first && cut.AtStart()
		section, id := cut.Next()
		if len(section) > 0 {
			dst = e.encodeBetweenAdded(dst, section, first)
		}
		if id < 0 {
			break
		}
		dst = append(dst, id)
	}
	if e.model.addSpecial && last {
		dst = append(dst, t.After...)
	}
	e.trim()
	return dst
}

// maxKeptIDs is the maximum number of ids of words for which scratch space is kept.
const maxKeptIDs = 1 << 16

// trim releases memory that a large text needed.
func (e *Encoder) trim() {
	e.validText, e.marked, e.prefixedText = norm.ReuseBuffer(e.validText), norm.ReuseBuffer(e.marked),
		norm.ReuseBuffer(e.prefixedText)
	e.words.Trim()
	if e.pieces != nil {
		e.pieces.Trim()
		if cap(e.wordIDs) > maxKeptIDs {
			e.wordIDs = nil
		}
	}
	e.steps.Trim()
}

// encodeSentencePiece encodes a text for a SentencePiece model, in parts of whole words.
func (e *Encoder) encodeSentencePiece(dst []int32, text []byte) []int32 {
	for s := e.pieces.Start(text); len(s) > 0; {
		n := e.pieces.ChunkEnd(s)
		e.wordIDs = e.words.Encode(e.model.cuts, e.wordIDs[:0], s[:n])
		dst = e.pieces.Append(dst, e.wordIDs, s[:n])
		s = s[n:]
	}
	return dst
}

// encodeBetweenAdded encodes the text between the added tokens of the raw text.
func (e *Encoder) encodeBetweenAdded(dst []int32, s []byte, first bool) []int32 {
	s = e.steps.Normalize(s)
	cut := added.NewCutter(&e.model.normalized, s, e.model.specialAsText)
	for {
		first := first && cut.AtStart()
		section, id := cut.Next()
		if len(section) > 0 {
			dst = e.encodeSection(dst, section, first)
		}
		if id < 0 {
			return dst
		}
		dst = append(dst, id)
	}
}

// encodeSection encodes text without added tokens. first reports that it starts where the text does.
func (e *Encoder) encodeSection(dst []int32, s []byte, first bool) []int32 {
	c := e.model.def.Characters
	switch {
	case e.model.def.WordPiece != nil:
		return e.words.Encode(e.model.def.Words, dst, s)
	case e.model.def.JoinsSpaces:
		e.marked = norm.JoinSpaces(norm.ReuseBuffer(e.marked), s, e.model.mark)
		if s = e.marked; len(s) == 0 {
			return dst
		}
	case c != nil && c.MarksLate && c.Mark != " ":
		s = norm.ReplaceAll(&e.marked, s, e.model.mark, []byte{' '})
	}
	if c == nil && e.model.def.Family.SpacedPieces != nil {
		return e.encodeSpacedPieces(dst, s)
	}
	if e.model.def.PrefixSpace && s[0] != ' ' && (first || c == nil || !c.PrefixesFirstOnly) {
		s = e.withSpace(s)
	}
	if c != nil {
		return e.encodeCharacterWords(dst, s)
	}
	return e.words.Encode(&e.model.split, dst, s)
}

// withSpace returns s with a space before it, valid until the next call.
func (e *Encoder) withSpace(s []byte) []byte {
	e.prefixedText = append(append(norm.ReuseBuffer(e.prefixedText), ' '), s...)
	return e.prefixedText
}

// encodeSpacedPieces encodes text. Each of its pieces gets a space before it, if it starts with none.
func (e *Encoder) encodeSpacedPieces(dst []int32, s []byte) []int32 {
	var open pretokenize.OpenPieces
	for i := 0; i < len(s); {
		end := e.model.def.Family.SpacedPieces.PieceEnd(s, i, &open)
		piece := s[i:end]
		if piece[0] != ' ' {
			piece = e.withSpace(piece)
		}
		dst = e.words.Encode(&e.model.split, dst, piece)
		i = end
	}
	return dst
}

// encodeCharacterWords encodes text of a model whose merging starts with characters.
func (e *Encoder) encodeCharacterWords(dst []int32, s []byte) []int32 {
	if id, ok := e.model.wholeTexts[string(s)]; ok {
		return append(dst, id)
	}
	return e.words.Encode(e.model.cuts, dst, s)
}
