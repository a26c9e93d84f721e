// Package charsmap replaces the characters of a text by a precompiled_charsmap of SentencePiece, as Hugging Face
// tokenizers does: it replaces graphemes and characters. SentencePiece itself replaces the longest keys (Longest).
package charsmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"loaderd/tokenizer/internal/trie"
)

// Map maps byte strings to their replacements.
type Map struct {
	keys  *trie.Trie
	texts [][]byte
	ascii [utf8.RuneSelf]bool // bytes that start a key

	growth float64
}

// Bounds of a charsmap. The largest published ones have 230,000 bytes, 20,000 keys and keys of 12 bytes.
const (
	maxKeys     = 1 << 20
	maxKeyBytes = 64
	// maxTextBytes bounds a replacement. The longest published one has 33 bytes.
	maxTextBytes = 256
)

// Parse reads a charsmap: the size of a double array, the array, and the replacements, each ended by a zero byte. An
// empty one maps nothing.
func Parse(blob []byte) (*Map, error) {
	m := &Map{growth: 1}
	if len(blob) == 0 {
		var err error
		m.keys, err = trie.New(nil)
		return m, err
	}
	if len(blob) < 4 {
		return nil, fmt.Errorf("%d bytes, want at least the size of its trie", len(blob))
	}
	size := binary.LittleEndian.Uint32(blob)
	blob = blob[4:]
	if size == 0 || size%4 != 0 || int64(size) > int64(len(blob)) {
		return nil, fmt.Errorf("a trie of %d bytes, but %d bytes follow: the data is cut short or damaged", size, len(blob))
	}
	r := reader{array: make([]uint32, size/4), texts: blob[size:], byPlace: map[uint32]int32{}}
	for i := range r.array {
		r.array[i] = binary.LittleEndian.Uint32(blob[4*i:])
	}
	if !utf8.Valid(r.texts) {
		return nil, errors.New("its replacements are not valid UTF-8")
	}
	if err := r.read(r.array[0]>>10<<(r.array[0]&(1<<9)>>6), nil); err != nil {
		return nil, err
	}
	for _, k := range r.keys {
		if k.Text[0] < utf8.RuneSelf {
			m.ascii[k.Text[0]] = true
		}
		m.growth = max(m.growth, float64(len(r.list[k.Value]))/float64(len(k.Text)))
	}
	var err error
	m.keys, err = trie.New(r.keys)
	for _, text := range r.list {
		m.texts = append(m.texts, []byte(text))
	}
	return m, err
}

// reader lists the keys of a double array.
type reader struct {
	array   []uint32
	texts   []byte
	keys    []trie.Key
	list    []string
	byPlace map[uint32]int32 // place of a replacement -> index in list
	nodes   int
}

// read lists the keys that continue a prefix, whose children are at base.
func (r *reader) read(base uint32, prefix []byte) error {
	if r.nodes++; r.nodes > maxKeys || len(prefix) > maxKeyBytes {
		return fmt.Errorf("its trie has more than %d nodes or keys of more than %d bytes", maxKeys, maxKeyBytes)
	}
	for c := uint32(1); c < 256; c++ {
		at := base ^ c
		if uint64(at) >= uint64(len(r.array)) {
			continue
		}
		unit := r.array[at]
		if unit&(1<<31|0xFF) != c {
			continue
		}
		child := at ^ unit>>10<<(unit&(1<<9)>>6)
		key := append(prefix[:len(prefix):len(prefix)], byte(c))
		if unit>>8&1 == 1 {
			if err := r.addKey(string(key), child); err != nil {
				return err
			}
		}
		if err := r.read(child, key); err != nil {
			return err
		}
	}
	return nil
}

// addKey adds a key whose value is in the unit at a place.
func (r *reader) addKey(key string, at uint32) error {
	if uint64(at) >= uint64(len(r.array)) {
		return fmt.Errorf("key %q has its value outside of the trie", key)
	}
	place := r.array[at] & (1<<31 - 1)
	if uint64(place) >= uint64(len(r.texts)) {
		return fmt.Errorf("key %q has its replacement at byte %d of %d", key, place, len(r.texts))
	}
	index, ok := r.byPlace[place]
	if !ok {
		text, _, ended := bytes.Cut(r.texts[place:], []byte{0})
		if !ended || len(text) > maxTextBytes || !utf8.Valid(text) {
			return fmt.Errorf("the replacement of key %q is not a text of at most %d bytes", key, maxTextBytes)
		}
		index = int32(len(r.list))
		r.byPlace[place], r.list = index, append(r.list, string(text))
	}
	r.keys = append(r.keys, trie.Key{Text: key, Value: index})
	return nil
}

// shortest returns the replacement of the shortest key with which s starts.
func (m *Map) shortest(s []byte) (text []byte, ok bool) {
	node := trie.Root
	for _, c := range s {
		if node, ok = m.keys.Next(node, c); !ok {
			return nil, false
		}
		if v := m.keys.Value(node); v >= 0 {
			return m.texts[v], true
		}
	}
	return nil, false
}

// Longest returns the replacement of the longest key with which s starts, and the bytes of the key: 0 if there is none.
func (m *Map) Longest(s []byte) (text []byte, size int) {
	size, value := m.keys.Longest(trie.Root, s)
	if size == 0 {
		return nil, 0
	}
	return m.texts[value], size
}

// KeepsBeforeASCII reports whether no key changes the character c before another one below utf8.RuneSelf.
func (m *Map) KeepsBeforeASCII(c byte) bool {
	node, ok := m.keys.Next(trie.Root, c)
	if !ok {
		return true
	}
	for next := range byte(utf8.RuneSelf) {
		if _, ok := m.keys.Next(node, next); ok {
			return false
		}
	}
	v := m.keys.Value(node)
	return v < 0 || string(m.texts[v]) == string(rune(c))
}

// Growth returns the factor by which the map may lengthen a text.
func (m *Map) Growth() float64 { return m.growth }

// AppendGraphemes appends s as replaced by Hugging Face tokenizers: a grapheme of less than six bytes by the
// replacement of the shortest key with which it starts. If it has none, and in longer graphemes, each character is
// replaced alone.
func (m *Map) AppendGraphemes(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && s[i] < utf8.RuneSelf && !m.ascii[s[i]] {
			i++
		}
		if i < len(s) && i > start && s[i] >= utf8.RuneSelf {
			i-- // the last character may be part of a grapheme
		}
		if dst = append(dst, s[start:i]...); i == len(s) {
			break
		}
		end := graphemeEnd(s, i)
		if _, size := utf8.DecodeRune(s[i:]); i+size < end && end-i < 6 {
			if text, ok := m.shortest(s[i:end]); ok {
				dst = append(dst, text...)
				i = end
				continue
			}
		}
		for i < end {
			_, size := utf8.DecodeRune(s[i:])
			if text, ok := m.shortest(s[i : i+size]); ok {
				dst = append(dst, text...)
			} else {
				dst = append(dst, s[i:i+size]...)
			}
			i += size
		}
	}
	return dst
}
