package definition

import (
	"fmt"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/norm"
)

// maxGrowth bounds the factor by which the literal normalizers may lengthen a text. The memory and the tokens of a
// document must be proportional to its length.
const maxGrowth = 64

// readNormalizer reads the steps for the text between added tokens, in order.
func (d *Definition) readNormalizer(n map[string]any) error {
	if n == nil {
		return nil
	}
	switch n["type"] {
	case "Sequence":
		list, ok := n["normalizers"].([]any)
		if !ok {
			return format.UnsupportedError("normalizer", n)
		}
		for _, x := range list {
			one, ok := x.(map[string]any)
			if !ok {
				return format.UnsupportedError("normalizer", n)
			}
			if err := d.readNormalizer(one); err != nil {
				return err
			}
		}
		return nil
	case "NFC", "NFKC":
		d.Normalize = append(d.Normalize, norm.Step{Form: n["type"].(string)})
		return nil
	case "Prepend":
		text, ok := n["prepend"].(string)
		if !ok || text == "" { // Prepend of an empty text doubles the first character in the reference
			return format.UnsupportedError("normalizer", n)
		}
		d.Normalize = append(d.Normalize, norm.Step{Form: "Prepend", To: []byte(text)})
		return d.checkGrowth(n)
	case "Replace":
		pattern, _ := n["pattern"].(map[string]any)
		from, okFrom := pattern["String"].(string)
		to, okTo := n["content"].(string)
		if !okFrom || !okTo || len(pattern) != 1 || from == "" {
			return format.UnsupportedError("normalizer", n)
		}
		d.Normalize = append(d.Normalize, norm.Step{Form: "Replace", From: []byte(from), To: []byte(to)})
		return d.checkGrowth(n)
	}
	return format.UnsupportedError("normalizer", n)
}

// checkGrowth returns an error if the normalizers up to the last one, n, lengthen a text too much.
func (d *Definition) checkGrowth(n map[string]any) error {
	growth := 1.0
	for _, s := range d.Normalize {
		switch s.Form {
		case "Prepend": // in the worst case to a single byte, the least that is between added tokens
			growth *= 1 + float64(len(s.To))
		case "Replace":
			growth *= max(1, float64(len(s.To))/float64(len(s.From)))
		}
	}
	if growth > maxGrowth {
		return fmt.Errorf("normalizer %s makes a text up to %.0f times as long, at most %d is supported: %s",
			format.Describe(n), growth, maxGrowth, format.PretokenizedHint)
	}
	return nil
}
