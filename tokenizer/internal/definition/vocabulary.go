package definition

import (
	"fmt"
	"sync"

	"loaderd/tokenizer/internal/format"
)

// Vocabulary has the entries of a file, identified by their index, and the texts that they represent.
type Vocabulary struct {
	Entries    []format.Entry // as spelled in the file, in its order
	texts      []string       // by id: texts that merges may make inside the encoder; empty for other ids
	mergeable  []bool         // by place: whether merges may make it
	usedIDs    []bool         // by id: whether an entry has it
	placeIndex func() map[string]uint32
}

// newVocabulary returns the vocabulary of entries with distinct spellings. appendText appends the text that an entry
// represents, if merges may make it.
func newVocabulary(entries []format.Entry, appendText func(dst []byte, entry string) (text []byte, ok bool)) (
	v Vocabulary, err error) {
	size, bytes := int32(0), 0
	for _, e := range entries {
		size = max(size, e.ID+1)
		bytes += len(e.Token)
	}
	v = Vocabulary{Entries: entries, texts: make([]string, size), usedIDs: make([]bool, size),
		mergeable: make([]bool, len(entries))}
	all := make([]byte, 0, bytes) // the texts are no longer than the entries
	from := make([]int32, len(entries)+1)
	for i, e := range entries {
		if v.usedIDs[e.ID] {
			return v, v.duplicateIDError(e)
		}
		v.usedIDs[e.ID] = true
		if e.Token == "" {
			return v, fmt.Errorf("model vocab: id %d is the empty token", e.ID)
		}
		if text, ok := appendText(all, e.Token); ok {
			all, v.mergeable[i] = text, true
		}
		from[i+1] = int32(len(all))
	}
	one := string(all) // all texts are substrings of it
	for i, e := range entries {
		v.texts[e.ID] = one[from[i]:from[i+1]]
	}
	v.placeIndex = sync.OnceValue(func() map[string]uint32 {
		m := make(map[string]uint32, len(entries))
		for i, e := range entries {
			m[e.Token] = uint32(i)
		}
		return m
	})
	return v, nil
}

// duplicateIDError returns the error for an entry with the id of an earlier one.
func (v *Vocabulary) duplicateIDError(e format.Entry) error {
	for _, other := range v.Entries {
		if other.ID == e.ID {
			return fmt.Errorf("model vocab: tokens %q and %q both have id %d", min(e.Token, other.Token),
				max(e.Token, other.Token), e.ID)
		}
	}
	return nil
}

// idOf returns the id of an entry by its spelling.
func (v *Vocabulary) idOf(entry string) (int32, bool) {
	place, ok := v.placeIndex()[entry]
	if !ok {
		return 0, false
	}
	return v.Entries[place].ID, true
}

// isUsed reports whether an entry has an id.
func (v *Vocabulary) isUsed(id int32) bool {
	return id >= 0 && int(id) < len(v.usedIDs) && v.usedIDs[id]
}

// mergeText returns the text of the entry at a place, "" if merges cannot make it.
func (v *Vocabulary) mergeText(place uint32) string { return v.texts[v.Entries[place].ID] }

// TokensByID returns, by id, the texts that merges may make. Ids without a token, or without such a text, have an
// empty one. Callers must not change it.
func (v *Vocabulary) TokensByID() []string { return v.texts }
