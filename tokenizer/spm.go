package tokenizer

import (
	"bytes"
	"strings"

	"loaderd/tokenizer/internal/norm"
)

// characterModel is what makes a tokenizer one of SentencePiece's kind: merging begins with characters, and spaces are
// written as a mark, usually U+2581.
//
// Inside the encoder a space stands for the mark: text with spaces needs no rewriting, and words stay short. Real spaces
// do not reach the merges then, so nothing is lost.
type characterModel struct {
	mark      string // what spaces become; "" if they stay
	late      bool   // they become it after the added tokens of normalized text are found (Metaspace)
	words     bool   // each mark begins a word that merges on its own
	firstOnly bool   // the space before text goes before a text, not after added tokens
	unk       string // the token of characters without one
	hasUnk    bool
	fuse      bool // one unk for neighbours
	bytes     bool // characters without a token become the tokens of their bytes, where all of these exist
}

// cutsWords reports whether text is cut into words before merging, not only where that changes nothing.
func (d *definition) cutsWords() bool { return d.characters == nil || d.characters.words }

// inside spells a vocabulary entry as the encoder does; ok is false for one that merges cannot reach.
func (c *characterModel) inside(entry string) (text string, ok bool) {
	if c.mark == "" || c.mark == " " {
		return entry, true
	}
	if strings.Contains(entry, " ") {
		return "", false
	}
	return strings.ReplaceAll(entry, c.mark, " "), true
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
func (d *definition) marksSpaces() bool {
	return d.characters != nil && d.characters.mark != "" && !d.characters.late
}

// insideSteps are the steps of a definition for the encoder: where spaces become the mark, the mark becomes a space, and
// what is put before the text goes behind that, where it costs less and gives the same.
func (d *definition) insideSteps() []norm.Step {
	if !d.marksSpaces() {
		return d.normalize
	}
	at, mark, _ := replacesSpaces(d.normalize)
	first := at
	for first > 0 && d.normalize[first-1].Form == "Prepend" {
		first--
	}
	steps := append([]norm.Step{}, d.normalize[:first]...)
	if mark != " " {
		steps = append(steps, norm.Step{Form: "Replace", From: []byte(mark), To: []byte(" ")})
	}
	for i, s := range d.normalize[first:] {
		if first+i != at {
			s.To = bytes.ReplaceAll(s.To, []byte(mark), []byte(" "))
			steps = append(steps, s)
		}
	}
	return steps
}
