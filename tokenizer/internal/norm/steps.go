// Package norm changes text before it is split and merged, according to the normalizers of a tokenizer.json. It
// implements Unicode normalization forms, lower case, the removal of accents and spaces, BERT's and SentencePiece's
// normalizers, and literal text that is prepended or replaces other text. It also replaces invalid UTF-8.
package norm

import (
	"bytes"

	"loaderd/tokenizer/internal/charsmap"
	"loaderd/tokenizer/internal/ucd"
)

// Step is one normalizer of a file. From and To are those of literal text that is prepended (Prepend) or replaces other
// text (Replace). ReplaceSpaces replaces each run of two or more spaces by To.
type Step struct {
	Form        string // as named in the file
	From, To    []byte
	Left, Right bool          // of Strip
	Bert        Bert          // of BertNormalizer
	Charsmap    *charsmap.Map // of Precompiled
}

// Stepper applies the steps of a definition in sequence. It has the scratch space of one goroutine.
type Stepper struct {
	steps []Step
	forms []normalizer
	out   [][]byte
}

// NewStepper returns a stepper for steps in their order.
func NewStepper(steps []Step) Stepper {
	return Stepper{steps, make([]normalizer, len(steps)), make([][]byte, len(steps))}
}

// Normalize returns s after all steps: s itself if nothing changes, else a buffer that the next call reuses.
func (p *Stepper) Normalize(s []byte) []byte {
	for i := range p.steps {
		switch step := &p.steps[i]; step.Form {
		case "NFC":
			s = p.forms[i].nfc(s)
		case "NFKC":
			s = p.forms[i].nfc(replaceVariants(&p.out[i], s))
		case "Prepend":
			if len(s) > 0 {
				p.out[i] = append(append(ReuseBuffer(p.out[i]), step.To...), s...)
				s = p.out[i]
			}
		case "Replace":
			s = ReplaceAll(&p.out[i], s, step.From, step.To)
		case "ReplaceSpaces":
			s = replaceSpaces(&p.out[i], s, step.To)
		case "NFD":
			s = p.forms[i].nfd(s)
		case "NFKD":
			s = p.forms[i].nfd(replaceVariants(&p.out[i], s))
		case "Lowercase":
			s = lower(&p.out[i], s)
		case "StripAccents":
			s = dropClass(&p.out[i], s, ucd.IsStripped)
		case "Strip":
			s = strip(s, step.Left, step.Right)
		case "BertNormalizer":
			s = p.forms[i].bert(&p.out[i], s, &step.Bert)
		case "Precompiled":
			p.out[i] = step.Charsmap.AppendGraphemes(ReuseBuffer(p.out[i]), s)
			s = p.out[i]
		}
	}
	return s
}

// Trim releases memory that a large text needed.
func (p *Stepper) Trim() {
	for i := range p.steps {
		p.forms[i].out, p.out[i] = ReuseBuffer(p.forms[i].out), ReuseBuffer(p.out[i])
	}
}

// ReplaceAll returns s with each from replaced by to: s itself if it contains none, else in the buffer.
func ReplaceAll(buffer *[]byte, s, from, to []byte) []byte {
	k := bytes.Index(s, from)
	if k < 0 {
		return s
	}
	out := ReuseBuffer(*buffer)
	for ; k >= 0; k = bytes.Index(s, from) {
		out = append(append(out, s[:k]...), to...)
		s = s[k+len(from):]
	}
	*buffer = append(out, s...)
	return *buffer
}

// maxKeptBytes is the maximum size of a text buffer that is kept from text to text.
const maxKeptBytes = 1 << 20

// ReuseBuffer returns an empty buffer in the memory of b, or nil if b is too large to keep.
func ReuseBuffer(b []byte) []byte {
	if cap(b) > maxKeptBytes {
		return nil
	}
	return b[:0]
}
