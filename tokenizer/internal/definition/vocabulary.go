package definition

import (
	"fmt"
	"sync"

	"loaderd/tokenizer/internal/format"
)

// Vocabulary is the entries of a file, each named by its place among them, with the texts that they stand for.
type Vocabulary struct {
	Entries []format.Entry // as they are spelled, in the order of the file
	texts   []string       // by id: what merges may make inside the encoder; empty for ids of other entries, and of none
	made    []bool         // by place: whether merges may make it
	used    []bool         // by id
	places  func() map[string]uint32
}

// newVocabulary takes entries that are all spelled differently. appendText appends the text that an entry stands for,
// if merges may make it.
func newVocabulary(entries []format.Entry, appendText func(dst []byte, entry string) (text []byte, ok bool)) (
	v Vocabulary, err error) {
	size, bytes := int32(0), 0
	for _, e := range entries {
		size = max(size, e.ID+1)
		bytes += len(e.Token)
	}
	v = Vocabulary{Entries: entries, texts: make([]string, size), used: make([]bool, size),
		made: make([]bool, len(entries))}
	all := make([]byte, 0, bytes) // the texts are no longer than the entries
	from := make([]int32, len(entries)+1)
	for i, e := range entries {
		if v.used[e.ID] {
			return v, v.twice(e)
		}
		v.used[e.ID] = true
		if e.Token == "" {
			return v, fmt.Errorf("model vocab: id %d is the empty token", e.ID)
		}
		if text, ok := appendText(all, e.Token); ok {
			all, v.made[i] = text, true
		}
		from[i+1] = int32(len(all))
	}
	one := string(all) // of which all texts are parts
	for i, e := range entries {
		v.texts[e.ID] = one[from[i]:from[i+1]]
	}
	v.places = sync.OnceValue(func() map[string]uint32 {
		m := make(map[string]uint32, len(entries))
		for i, e := range entries {
			m[e.Token] = uint32(i)
		}
		return m
	})
	return v, nil
}

// twice is the error for an entry whose id another one before it has.
func (v *Vocabulary) twice(e format.Entry) error {
	for _, other := range v.Entries {
		if other.ID == e.ID {
			return fmt.Errorf("model vocab: tokens %q and %q both have id %d", min(e.Token, other.Token),
				max(e.Token, other.Token), e.ID)
		}
	}
	return nil
}

// id is that of an entry as it is spelled.
func (v *Vocabulary) id(entry string) (int32, bool) {
	place, ok := v.places()[entry]
	if !ok {
		return 0, false
	}
	return v.Entries[place].ID, true
}

// isUsed tells whether some entry has an id.
func (v *Vocabulary) isUsed(id int32) bool { return id >= 0 && int(id) < len(v.used) && v.used[id] }

// text is that of the entry at a place, "" if merges cannot make it.
func (v *Vocabulary) text(place uint32) string { return v.texts[v.Entries[place].ID] }

// TokensByID lists the texts that merges may make by id. Ids that stand for nothing, or for no such text, have an empty
// one. It is not to be changed.
func (v *Vocabulary) TokensByID() []string { return v.texts }
