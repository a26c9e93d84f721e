// Package norm changes text before it is cut and merged, as the normalizers of a tokenizer.json ask for: Unicode
// normalization forms C and KC, and literal text put before or in place of other text. It also replaces what is no
// valid UTF-8.
package norm

import "bytes"

// Step is one normalizer of a file: a Unicode normalization form, or literal text that is put before (Prepend) or in
// place of other text (Replace).
type Step struct {
	Form     string // as the file calls it
	From, To []byte
}

// Stepper does the steps of a definition one after the other. It holds the scratch space of one goroutine.
type Stepper struct {
	steps []Step
	forms []normalizer
	out   [][]byte
}

// NewStepper does the steps in their order.
func NewStepper(steps []Step) Stepper {
	return Stepper{steps, make([]normalizer, len(steps)), make([][]byte, len(steps))}
}

// Normalize returns s after all steps: s itself where nothing changes, else a buffer that the next call uses again.
func (p *Stepper) Normalize(s []byte) []byte {
	for i := range p.steps {
		switch step := &p.steps[i]; step.Form {
		case "NFC":
			s = p.forms[i].nfc(s)
		case "NFKC":
			s = p.forms[i].nfc(replaceVariants(&p.out[i], s))
		case "Prepend":
			if len(s) > 0 {
				p.out[i] = append(append(Keep(p.out[i]), step.To...), s...)
				s = p.out[i]
			}
		case "Replace":
			s = ReplaceAll(&p.out[i], s, step.From, step.To)
		}
	}
	return s
}

// Trim gives back what a large text needed.
func (p *Stepper) Trim() {
	for i := range p.steps {
		p.forms[i].out, p.out[i] = Keep(p.forms[i].out), Keep(p.out[i])
	}
}

// ReplaceAll returns s with to in place of each from, s itself if there is none, else in the buffer.
func ReplaceAll(buffer *[]byte, s, from, to []byte) []byte {
	k := bytes.Index(s, from)
	if k < 0 {
		return s
	}
	out := Keep(*buffer)
	for ; k >= 0; k = bytes.Index(s, from) {
		out = append(append(out, s[:k]...), to...)
		s = s[k+len(from):]
	}
	*buffer = append(out, s...)
	return *buffer
}

// keepBytes is the largest text buffer that is kept from text to text.
const keepBytes = 1 << 20

// Keep is an empty buffer on the memory of b, or nil where that is too large to keep.
func Keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}
