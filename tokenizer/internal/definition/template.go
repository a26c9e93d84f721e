package definition

import (
	"math"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
)

// Template has the ids that a post-processor adds around the ids of a text.
type Template struct {
	Before, After  []int32
	UnsupportedErr error // why the post-processor is not supported
	AppliesAlways  bool  // the reference applies what is refused even without special tokens
}

func (t Template) hasIDs() bool { return len(t.Before)+len(t.After) > 0 }

// readTemplate reads the post_processor of a file. It is used only if special tokens are added.
func readTemplate(p map[string]any) (t Template) {
	if p == nil {
		return t
	}
	switch p["type"] {
	case "ByteLevel": // only changes offsets
		return t
	case "Sequence":
		list, _ := p["processors"].([]any)
		for _, x := range list {
			part, _ := x.(map[string]any)
			one := readTemplate(part)
			if one.UnsupportedErr != nil {
				return one
			}
			if one.hasIDs() {
				if t.hasIDs() { // the reference also applies the second to each token that the first adds
					return Template{UnsupportedErr: format.UnsupportedError("post_processor", p)}
				}
				t = one
			}
		}
		return t
	case "BertProcessing", "RobertaProcessing":
		cls, okC := namedID(p["cls"])
		sep, okS := namedID(p["sep"])
		if okC && okS {
			return Template{Before: []int32{cls}, After: []int32{sep}}
		}
	case "TemplateProcessing":
		pieces, _ := p["single"].([]any)
		special, _ := p["special_tokens"].(map[string]any)
		if !hasTextOnce(pieces) {
			return Template{UnsupportedErr: format.UnsupportedError("post_processor without the text, or with it twice,", p),
				AppliesAlways: true}
		}
		if t, ok := readPieces(pieces, special); ok {
			return t
		}
	}
	return Template{UnsupportedErr: format.UnsupportedError("post_processor", p)}
}

// hasTextOnce reports whether a template contains the encoded text exactly once, and no other text.
func hasTextOnce(pieces []any) bool {
	texts, others := 0, 0
	for _, x := range pieces {
		if sequence, ok := sequenceOf(x); ok && sequence["id"] == "A" {
			texts++
		} else if ok {
			others++
		}
	}
	return texts == 1 && others == 0
}

// sequenceOf returns the piece of a template that represents a text.
func sequenceOf(x any) (sequence map[string]any, ok bool) {
	piece, _ := x.(map[string]any)
	sequence, ok = piece["Sequence"].(map[string]any)
	return sequence, ok && len(piece) == 1
}

// readPieces reads a template that contains the text once.
func readPieces(pieces []any, special map[string]any) (t Template, ok bool) {
	behind := false
	for _, x := range pieces {
		if _, is := sequenceOf(x); is {
			behind = true
			continue
		}
		piece, _ := x.(map[string]any)
		token, _ := piece["SpecialToken"].(map[string]any)
		name, _ := token["id"].(string)
		named, _ := special[name].(map[string]any)
		list, is := named["ids"].([]any)
		if !is || len(piece) != 1 {
			return t, false
		}
		for _, x := range list {
			id, ok := wholeID(x)
			if !ok {
				return t, false
			}
			if behind {
				t.After = append(t.After, id)
			} else {
				t.Before = append(t.Before, id)
			}
		}
	}
	return t, true
}

// namedID reads ["[CLS]", 101].
func namedID(x any) (int32, bool) {
	if list, ok := x.([]any); ok && len(list) == 2 {
		return wholeID(list[1])
	}
	return 0, false
}

func wholeID(x any) (int32, bool) {
	id, ok := x.(float64)
	return int32(id), ok && id >= 0 && id <= merge.MaxID && id == math.Trunc(id)
}
