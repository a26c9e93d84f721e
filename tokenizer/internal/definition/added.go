package definition

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
)

// readAdded assigns to added tokens the ids of the reference, whatever the file specifies: that in the vocabulary, or
// the next one after the number of the vocabulary's entries.
func (d *Definition) readAdded(list []hf.TokenConfig) error {
	next := int32(len(d.Entries))
	seen := make(map[string]hf.TokenConfig, len(list))
	for i, t := range list {
		where := fmt.Sprintf("added_tokens[%d] %s", i, format.Truncate(strconv.Quote(t.Content)))
		if t.Content == "" {
			continue // the reference ignores it
		}
		t.Id = 0
		if other, ok := seen[t.Content]; ok {
			if t != other {
				return fmt.Errorf("%s: listed twice, with different flags", where)
			}
			continue
		}
		seen[t.Content] = t
		id, ok := d.idOf(t.Content)
		if !ok {
			if id = next; d.isUsed(id) || id > merge.MaxID {
				return fmt.Errorf("%s: the reference gives it id %d, which the vocabulary uses or which is beyond %d", where, id,
					merge.MaxID)
			}
			next++
		}
		d.Added = append(d.Added, added.Token{Content: t.Content, ID: id, Special: t.Special, Normalized: t.Normalized,
			SingleWord: t.SingleWord, Lstrip: t.Lstrip, Rstrip: t.Rstrip})
	}
	return nil
}

// AddedSets returns the sets of tokens that are found in the raw text, and in normalized text.
func (d *Definition) AddedSets() (raw, normalized added.Set, err error) {
	var sets [2][]added.Token
	steps := norm.NewStepper(d.EncoderSteps())
	from := map[string]string{}
	if d.SentencePiece != nil { // its control pieces in a text are text
		return raw, normalized, nil
	}
	for _, t := range d.Added {
		if !t.Normalized {
			sets[0] = append(sets[0], t)
			continue
		}
		content := t.Content
		t.Content = string(steps.Normalize([]byte(content)))
		if t.Content == "" {
			return raw, normalized, fmt.Errorf("added token %q: nothing is left of it when it is normalized", content)
		}
		if other, ok := from[t.Content]; ok {
			return raw, normalized, fmt.Errorf("added tokens %q and %q are the same when they are normalized", other, content)
		}
		from[t.Content] = content
		sets[1] = append(sets[1], t)
	}
	space := ' '
	if d.hasSpaceMark() {
		space, _ = utf8.DecodeRuneInString(d.Characters.Mark)
	}
	return added.NewSet(sets[0], ' '), added.NewSet(sets[1], space), nil
}

func sortAdded(list []added.Token) {
	slices.SortFunc(list, func(a, b added.Token) int { return int(a.ID) - int(b.ID) })
}
