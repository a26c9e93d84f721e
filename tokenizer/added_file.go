package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/norm"
)

// readAdded gives added tokens the ids that the reference gives them: that of the vocabulary, else the next one behind
// the number of the vocabulary's entries, whatever the file says.
func (d *definition) readAdded(list []hf.TokenConfig) error {
	next := int32(len(d.tokens) + len(d.names))
	taken := make(map[int32]bool, next)
	for _, entries := range []map[string]int32{d.tokens, d.names} {
		for _, id := range entries {
			taken[id] = true
		}
	}
	seen := make(map[string]hf.TokenConfig, len(list))
	for i, t := range list {
		where := fmt.Sprintf("added_tokens[%d] %s", i, cut(strconv.Quote(t.Content)))
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
		id, ok := d.vocabulary(t.Content)
		if !ok {
			if id = next; taken[id] || id > maxID {
				return fmt.Errorf("%s: the reference gives it id %d, which the vocabulary uses or which is beyond %d", where, id, maxID)
			}
			next++
		}
		d.added = append(d.added, addedToken{content: t.Content, id: id, special: t.Special, normalized: t.Normalized,
			singleWord: t.SingleWord, lstrip: t.Lstrip, rstrip: t.Rstrip})
	}
	return nil
}

// addedSets are the sets of tokens that are looked for in the text as it is, and in normalized text.
func (d *definition) addedSets() (raw, normalized addedSet, err error) {
	var sets [2][]addedToken
	steps := norm.NewStepper(d.insideSteps())
	from := map[string]string{}
	for _, t := range d.added {
		if !t.normalized {
			sets[0] = append(sets[0], t)
			continue
		}
		content := t.content
		t.content = string(steps.Normalize([]byte(content)))
		if t.content == "" {
			return raw, normalized, fmt.Errorf("added token %q: nothing is left of it when it is normalized", content)
		}
		if other, ok := from[t.content]; ok {
			return raw, normalized, fmt.Errorf("added tokens %q and %q are the same when they are normalized", other, content)
		}
		from[t.content] = content
		sets[1] = append(sets[1], t)
	}
	space := ' '
	if d.marksSpaces() {
		space, _ = utf8.DecodeRuneInString(d.characters.mark)
	}
	return newAddedSet(sets[0], ' '), newAddedSet(sets[1], space), nil
}

// vocabulary is the id of an entry as it is spelled in the file.
func (d *definition) vocabulary(entry string) (int32, bool) {
	if id, ok := d.names[entry]; ok {
		return id, true
	}
	if text, ok := d.textOf(entry); ok {
		id, ok := d.tokens[text]
		return id, ok
	}
	return 0, false
}

func sortAdded(list []addedToken) {
	slices.SortFunc(list, func(a, b addedToken) int { return int(a.id) - int(b.id) })
}
