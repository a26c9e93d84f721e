package definition

import (
	"bytes"
	"strings"

	"loaderd/tokenizer/internal/norm"
)

// CharacterModel is what makes a tokenizer one of SentencePiece's kind: merging begins with characters, and spaces are
// written as a mark, usually U+2581.
//
// Inside the encoder a space stands for the mark: text with spaces needs no rewriting, and words stay short. Real
// spaces do not reach the merges then, so nothing is lost.
type CharacterModel struct {
	Mark      string // what spaces become; "" if they stay
	Late      bool   // they become it after the added tokens of normalized text are found (Metaspace)
	Words     bool   // each mark begins a word that merges on its own
	FirstOnly bool   // the space before text goes before a text, not after added tokens
	unk       string // the token of characters without one
	hasUnk    bool
	fuse      bool // one unk for neighbours
	bytes     bool // characters without a token become the tokens of their bytes, where all of these exist
}

// CutsWords reports whether text is cut into words before merging, not only where that changes nothing.
func (d *Definition) CutsWords() bool { return d.Characters == nil || d.Characters.Words }

// appendInside appends a vocabulary entry as the encoder spells it; ok is false for one that merges cannot reach.
func (c *CharacterModel) appendInside(dst []byte, entry string) (text []byte, ok bool) {
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

// replacesSpaces is the place of the step after which text has no spaces, and the character that they become.
func replacesSpaces(steps []norm.Step) (at int, mark string, ok bool) {
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

// marksSpaces tells whether normalizing puts a mark in place of spaces.
func (d *Definition) marksSpaces() bool {
	return d.Characters != nil && d.Characters.Mark != "" && !d.Characters.Late
}

// InsideSteps are the steps of a definition for the encoder: where spaces become the mark, the mark becomes a space,
// and what is put before the text goes behind that, where it costs less and gives the same.
func (d *Definition) InsideSteps() []norm.Step {
	if !d.marksSpaces() {
		return d.Normalize
	}
	at, mark, _ := replacesSpaces(d.Normalize)
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
