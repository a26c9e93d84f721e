package tokenizer

import "bytes"

// step is one normalizer of a file: a Unicode normalization form, or literal text that is put before (Prepend) or in
// place of other text (Replace).
type step struct {
	form     string // as the file calls it
	from, to []byte
}

// stepper does the steps of a definition one after the other. It holds the scratch space of one goroutine.
type stepper struct {
	steps []step
	forms []normalizer
	out   [][]byte
}

func newStepper(steps []step) stepper {
	return stepper{steps, make([]normalizer, len(steps)), make([][]byte, len(steps))}
}

// normalize returns s after all steps: s itself where nothing changes, else a buffer that the next call uses again.
func (p *stepper) normalize(s []byte) []byte {
	for i := range p.steps {
		switch step := &p.steps[i]; step.form {
		case "NFC":
			s = p.forms[i].nfc(s)
		case "NFKC":
			s = p.forms[i].nfc(replaceVariants(&p.out[i], s))
		case "Prepend":
			if len(s) > 0 {
				p.out[i] = append(append(keep(p.out[i]), step.to...), s...)
				s = p.out[i]
			}
		case "Replace":
			s = replaceAll(&p.out[i], s, step.from, step.to)
		}
	}
	return s
}

// trim gives back what a large text needed.
func (p *stepper) trim() {
	for i := range p.steps {
		p.forms[i].out, p.out[i] = keep(p.forms[i].out), keep(p.out[i])
	}
}

// replaceAll returns s with to in place of each from, s itself if there is none, else in the buffer.
func replaceAll(buffer *[]byte, s, from, to []byte) []byte {
	k := bytes.Index(s, from)
	if k < 0 {
		return s
	}
	out := keep(*buffer)
	for ; k >= 0; k = bytes.Index(s, from) {
		out = append(append(out, s[:k]...), to...)
		s = s[k+len(from):]
	}
	*buffer = append(out, s...)
	return *buffer
}

// keepBytes is the largest text buffer that is kept from text to text.
const keepBytes = 1 << 20

// keep is an empty buffer on the memory of b, or nil where that is too large to keep.
func keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}
