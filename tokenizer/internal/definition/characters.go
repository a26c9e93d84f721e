package definition

import (
	"bytes"
	"strings"

	"loaderd/tokenizer/internal/norm"
)

// CharacterModel makes a tokenizer one of SentencePiece's kind: merging starts with characters, and spaces are
// written as a mark, usually U+2581.
//
// Inside the encoder a space represents the mark: text with spaces needs no rewriting, and words stay short. Real
// spaces do not reach the merges then, so nothing is lost.
type CharacterModel struct {
	Mark              string // replaces spaces; "" if they stay
	MarksLate         bool   // spaces are replaced after the added tokens of normalized text are found (Metaspace)
	SplitsAtMarks     bool   // each mark starts a word that merges separately
	PrefixesFirstOnly bool   // a space is put before a whole text, not after added tokens
	unknownToken      string // the token of unknown characters
	hasUnknown        bool
	fusesUnknown      bool // one unk for adjacent unknown characters
	byteFallback      bool // characters without a token become the tokens of their bytes, if all of these exist
}

// IsSplitIntoWords reports whether text is split into words before merging, also where that changes the result.
func (d *Definition) IsSplitIntoWords() bool {
	return d.Characters == nil || d.Characters.SplitsAtMarks
}

// appendInternal appends a vocabulary entry in the form inside the encoder; ok is false for one that merges cannot
// make.
func (c *CharacterModel) appendInternal(dst []byte, entry string) (text []byte, ok bool) {
	if c.Mark == "" || c.Mark == " " {
		return append(dst, entry...), true
	}
	if strings.Contains(entry, " ") {
		return dst, false
	}
	for {
		before, behind, found := strings.Cut(entry, c.Mark)
		if dst = append(dst, before...); !found {
			return dst, true
		}
		dst, entry = append(dst, ' '), behind
	}
}

// findSpaceReplacement returns the index of the step that removes all spaces, and the character that replaces them.
func findSpaceReplacement(steps []norm.Step) (at int, mark string, ok bool) {
	for at = len(steps) - 1; at >= 0; at-- {
		s := &steps[at]
		switch {
		case s.Form == "Replace" && string(s.From) == " ":
			return at, string(s.To), len([]rune(string(s.To))) == 1
		case s.Form != "Prepend" || bytes.Contains(s.To, []byte(" ")):
			return 0, "", false
		}
	}
	return 0, "", false
}

// hasSpaceMark reports whether normalizing replaces spaces by a mark.
func (d *Definition) hasSpaceMark() bool {
	return d.Characters != nil && d.Characters.Mark != "" && !d.Characters.MarksLate
}

// EncoderSteps returns the normalization steps of the encoder. If spaces become the mark, the mark becomes a space
// instead. Prepended text moves after that step if this is cheaper and equivalent.
func (d *Definition) EncoderSteps() []norm.Step {
	if !d.hasSpaceMark() {
		return d.Normalize
	}
	at, mark, _ := findSpaceReplacement(d.Normalize)
	first := at
	for first > 0 && d.Normalize[first-1].Form == "Prepend" {
		first--
	}
	steps := append([]norm.Step{}, d.Normalize[:first]...)
	if mark != " " {
		steps = append(steps, norm.Step{Form: "Replace", From: []byte(mark), To: []byte(" ")})
	}
	for i, s := range d.Normalize[first:] {
		if first+i != at {
			s.To = bytes.ReplaceAll(s.To, []byte(mark), []byte(" "))
			steps = append(steps, s)
		}
	}
	return steps
}
