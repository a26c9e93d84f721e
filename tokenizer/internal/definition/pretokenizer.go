package definition

import (
	"errors"
	"fmt"
	"slices"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/pretokenize"
)

// readPreTokenizer accepts ByteLevel with or without its own pattern, and other splitters of text around it that only
// split and drop nothing. Files without ByteLevel are of the other kind: their merges start with characters.
func (d *Definition) readPreTokenizer(p map[string]any) error {
	list, ok := flatten(p)
	if !ok {
		return format.UnsupportedError("pre_tokenizer", p)
	}
	if !slices.ContainsFunc(list, isByteLevel) {
		ok, err := d.readCharacterLevel(p)
		if !ok && err == nil {
			err = format.UnsupportedError("pre_tokenizer", p)
		}
		return err
	}
	if len(list) > pretokenize.MaxStages {
		return format.UnsupportedError("pre_tokenizer of more than "+fmt.Sprint(pretokenize.MaxStages)+" parts,", p)
	}
	b := &pretokenize.Builder{}
	for i, part := range list {
		if isByteLevel(part) && slices.ContainsFunc(list[:i], isByteLevel) {
			return format.UnsupportedError("pre_tokenizer ByteLevel twice,", part)
		}
		if err := d.addPart(b, part); err != nil {
			return err
		}
	}
	d.Family = b.Family()
	return nil
}

func isByteLevel(p map[string]any) bool { return p["type"] == "ByteLevel" }

// addPart adds a part of a pre-tokenizer.
func (d *Definition) addPart(b *pretokenize.Builder, p map[string]any) error {
	behavior, _ := p["behavior"].(string)
	invert := boolOption(p, "invert", false)
	switch p["type"] {
	case "ByteLevel":
		d.PrefixSpace = boolOption(p, "add_prefix_space", true)
		return partError(p, b.AddByteLevel(d.PrefixSpace, boolOption(p, "use_regex", true)))
	case "Digits":
		if behavior = "Contiguous"; boolOption(p, "individual_digits", false) {
			behavior = "Isolated"
		}
		return partError(p, b.AddDigits(behavior))
	case "Punctuation":
		if p["behavior"] == nil {
			behavior = "Isolated"
		}
		return partError(p, b.AddPunctuation(behavior))
	case "Split":
		pattern, _ := p["pattern"].(map[string]any)
		if regex, ok := pattern["Regex"].(string); ok && len(pattern) == 1 {
			return partError(p, b.AddRegex(regex, behavior, invert))
		}
		if text, ok := pattern["String"].(string); ok && len(pattern) == 1 && text != "" {
			return partError(p, b.AddText(text, behavior, invert))
		}
	}
	return format.UnsupportedError("pre_tokenizer", p)
}

// partError returns the error for an unsupported part.
func partError(p map[string]any, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pretokenize.ErrUnsupportedBehavior):
		return format.UnsupportedError("pre_tokenizer behavior", p)
	}
	return format.UnsupportedError("pre_tokenizer pattern ("+err.Error()+")", p)
}

// boolOption returns an option of a part, which format.CheckFields has checked. If it is missing, option returns
// absent, the reference's default.
func boolOption(p map[string]any, name string, absent bool) bool {
	if v, ok := p[name].(bool); ok {
		return v
	}
	return absent
}
