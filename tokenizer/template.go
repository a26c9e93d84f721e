package tokenizer

import (
	"fmt"
	"math"
	"slices"
)

// template is what a post-processor puts around the ids of a text.
type template struct {
	before, behind []int32
	refused        error // why the post-processor's is not known
}

func (t template) adds() bool { return len(t.before)+len(t.behind) > 0 }

// readTemplate reads the post_processor of a file. What it asks for counts only when special tokens are to be added.
func readTemplate(p map[string]any) (t template) {
	if p == nil {
		return t
	}
	switch p["type"] {
	case "ByteLevel": // moves offsets
		return t
	case "Sequence":
		list, _ := p["processors"].([]any)
		for _, x := range list {
			part, _ := x.(map[string]any)
			one := readTemplate(part)
			if one.refused != nil {
				return one
			}
			if one.adds() {
				if t.adds() { // the reference does the second to each token that the first adds, too
					return template{refused: refuse("post_processor", p)}
				}
				t = one
			}
		}
		return t
	case "BertProcessing", "RobertaProcessing":
		cls, okC := namedID(p["cls"])
		sep, okS := namedID(p["sep"])
		if okC && okS {
			return template{before: []int32{cls}, behind: []int32{sep}}
		}
	case "TemplateProcessing":
		pieces, _ := p["single"].([]any)
		special, _ := p["special_tokens"].(map[string]any)
		if t, ok := readPieces(pieces, special); ok {
			return t
		}
	}
	return template{refused: refuse("post_processor", p)}
}

// readPieces reads a template for one text, which must be in it once.
func readPieces(pieces []any, special map[string]any) (t template, ok bool) {
	texts := 0
	for _, x := range pieces {
		piece, _ := x.(map[string]any)
		if sequence, is := piece["Sequence"].(map[string]any); is && len(piece) == 1 {
			if texts++; sequence["id"] != "A" {
				return t, false
			}
			continue
		}
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
			if texts == 0 {
				t.before = append(t.before, id)
			} else {
				t.behind = append(t.behind, id)
			}
		}
	}
	return t, texts == 1
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
	return int32(id), ok && id >= 0 && id <= maxID && id == math.Trunc(id)
}

// checkTemplate makes sure that what is to be added is known.
func (m *Model) checkTemplate() error {
	t := m.def.template
	if !m.def.addSpecial {
		return nil
	}
	for _, id := range slices.Concat(t.before, t.behind) {
		if !m.known(id) {
			return fmt.Errorf("post_processor adds id %d, which no token has", id)
		}
	}
	return t.refused
}
