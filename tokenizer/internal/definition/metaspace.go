package definition

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/format"
)

// readCharacterLevel reads the pre-tokenizers of SentencePiece-style files: none, Metaspace, and splits at spaces
// after a normalizer that leaves none. ok is false for other kinds of pre-tokenizers.
func (d *Definition) readCharacterLevel(p map[string]any) (ok bool, err error) {
	list, ok := flatten(p)
	if !ok {
		return false, nil
	}
	for _, x := range list {
		if x["type"] != "Metaspace" && !isSpaceSplit(x) {
			return false, nil
		}
	}
	c := &CharacterModel{}
	d.Characters = c
	_, mark, folded := findSpaceReplacement(d.Normalize)
	if folded {
		c.Mark = mark
	}
	seen := false
	for _, x := range list {
		switch {
		case x["type"] != "Metaspace" && !(folded && mark != " " || seen && c.Mark != " "):
			return true, format.UnsupportedError("pre_tokenizer where spaces are left in the text,", x)
		case x["type"] == "Metaspace" && seen:
			return true, format.UnsupportedError("second pre_tokenizer", x)
		case x["type"] == "Metaspace":
			seen = true
			if err := d.readMetaspace(x, folded); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// flatten lists the parts of a pre-tokenizer, including those in sequences.
func flatten(p map[string]any) (list []map[string]any, ok bool) {
	if p == nil {
		return nil, true
	}
	if p["type"] != "Sequence" {
		return []map[string]any{p}, true
	}
	parts, ok := p["pretokenizers"].([]any)
	if !ok {
		return nil, false
	}
	for _, x := range parts {
		part, _ := x.(map[string]any)
		more, ok := flatten(part)
		if !ok || part == nil {
			return nil, false
		}
		list = append(list, more...)
	}
	return list, true
}

// isSpaceSplit recognises a Split that does not change text without spaces.
func isSpaceSplit(p map[string]any) bool {
	pattern, _ := p["pattern"].(map[string]any)
	invert, ok := p["invert"].(bool)
	switch p["behavior"] {
	case "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous":
	default:
		return false
	}
	return p["type"] == "Split" && len(pattern) == 1 && pattern["String"] == " " && ok && !invert
}

func (d *Definition) readMetaspace(p map[string]any, folded bool) error {
	c := d.Characters
	mark, _ := p["replacement"].(string)
	if utf8.RuneCountInString(mark) != 1 {
		return format.UnsupportedError("pre_tokenizer replacement", p)
	}
	c.MarksLate = !folded || c.Mark != mark
	c.Mark = mark
	c.SplitsAtMarks = true
	switch v := p["split"].(type) {
	case nil:
	case bool:
		c.SplitsAtMarks = v
	default:
		return format.UnsupportedError("pre_tokenizer split", p)
	}
	scheme, ok := p["prepend_scheme"].(string)
	if !ok && p["prepend_scheme"] == nil {
		scheme = "always"
	}
	if v := p["add_prefix_space"]; v != nil && v != true && (v != false || scheme != "never") {
		return format.UnsupportedError("pre_tokenizer add_prefix_space", p)
	}
	switch scheme {
	case "never":
	case "always":
		d.PrefixSpace = true
	case "first":
		d.PrefixSpace, c.PrefixesFirstOnly = true, true
		for _, s := range d.Normalize { // if the first character moves, the reference no longer treats it as the first
			if s.Form != "Replace" || utf8.RuneCount(s.From) != 1 || utf8.RuneCount(s.To) != 1 {
				return format.UnsupportedError("pre_tokenizer prepend_scheme first after normalizer "+s.Form+",", p)
			}
		}
	default:
		return format.UnsupportedError("pre_tokenizer prepend_scheme", p)
	}
	return nil
}
