package definition

import (
	"encoding/base64"
	"errors"
	"fmt"

	"loaderd/tokenizer/internal/charsmap"
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
	case "NFC", "NFKC", "NFD", "NFKD", "Lowercase", "StripAccents":
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
		step, ok := readReplace(n)
		if !ok {
			return format.UnsupportedError("normalizer", n)
		}
		d.Normalize = append(d.Normalize, step)
		return d.checkGrowth(n)
	case "Strip":
		left, okL := n["strip_left"].(bool)
		right, okR := n["strip_right"].(bool)
		if !okL || !okR {
			return format.UnsupportedError("normalizer", n)
		}
		d.Normalize = append(d.Normalize, norm.Step{Form: "Strip", Left: left, Right: right})
		return nil
	case "BertNormalizer":
		return d.readBert(n)
	case "Precompiled":
		return d.readPrecompiled(n)
	}
	return format.UnsupportedError("normalizer", n)
}

// readReplace reads a Replace of literal text, or of two or more spaces.
func readReplace(n map[string]any) (step norm.Step, ok bool) {
	pattern, _ := n["pattern"].(map[string]any)
	to, ok := n["content"].(string)
	if !ok || len(pattern) != 1 {
		return step, false
	}
	if pattern["Regex"] == " {2,}" {
		return norm.Step{Form: "ReplaceSpaces", To: []byte(to)}, true
	}
	from, ok := pattern["String"].(string)
	return norm.Step{Form: "Replace", From: []byte(from), To: []byte(to)}, ok && from != ""
}

func (d *Definition) readBert(n map[string]any) error {
	var o norm.Bert
	for _, option := range []struct {
		name string
		to   *bool
	}{{"clean_text", &o.CleanText}, {"handle_chinese_chars", &o.SpacesHan}, {"lowercase", &o.Lowercase}} {
		v, ok := n[option.name].(bool)
		if !ok {
			return fmt.Errorf("normalizer %s: want %s, true or false: the reference refuses the file without it",
				format.Describe(n), option.name)
		}
		*option.to = v
	}
	switch v := n["strip_accents"].(type) {
	case nil:
		o.StripAccents = o.Lowercase
	case bool:
		o.StripAccents = v
	default:
		return format.UnsupportedError("normalizer strip_accents", v)
	}
	d.Normalize = append(d.Normalize, norm.Step{Form: "BertNormalizer", Bert: o})
	return nil
}

func (d *Definition) readPrecompiled(n map[string]any) error {
	text, ok := n["precompiled_charsmap"].(string)
	if !ok {
		return format.UnsupportedError("normalizer", n)
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("normalizer Precompiled: precompiled_charsmap is not base64: %w", err)
	}
	if len(blob) == 0 { // the reference cannot read it
		return errors.New("normalizer Precompiled: precompiled_charsmap is empty")
	}
	m, err := charsmap.Parse(blob)
	if err != nil {
		return fmt.Errorf("normalizer Precompiled: precompiled_charsmap: %w", err)
	}
	d.Normalize = append(d.Normalize, norm.Step{Form: "Precompiled", Charsmap: m})
	return d.checkGrowth(n)
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
		case "ReplaceSpaces":
			growth *= max(1, float64(len(s.To))/2)
		case "Precompiled":
			growth *= s.Charsmap.Growth()
		}
	}
	if growth > maxGrowth {
		return fmt.Errorf("normalizer %s makes a text up to %.0f times as long, at most %d is supported: %s",
			format.Describe(n), growth, maxGrowth, format.PretokenizedHint)
	}
	return nil
}
