// Package charsmap replaces the characters of a text by a precompiled_charsmap of SentencePiece, as Hugging Face
// tokenizers does: it replaces graphemes and characters. SentencePiece itself replaces the longest keys (Longest).
package charsmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Map maps byte strings to their replacements. The keys are in a double array, as in the file.
type Map struct {
	units  []uint32
	root   uint32  // where the children of the root are: the child by a byte is there, exclusive or the byte
	values []int32 // by unit: the index of the replacement that it has
	texts  [][]byte
	ascii  [utf8.RuneSelf]bool // bytes that start a key

	growth float64
}

// Bounds of a charsmap. The largest published ones have 230,000 bytes, 20,000 keys and keys of 12 bytes.
const (
	maxNodes    = 1 << 20
	maxKeyBytes = 64
	maxUnits    = 1 << 22 // of the double array, and so its memory
	// maxTextBytes bounds a replacement. The longest published one has 33 bytes.
	maxTextBytes = 256
)

// Parse reads a charsmap: the size of a double array, the array, and the replacements, each ended by a zero byte. An
// empty one maps nothing. The result refers to blob.
func Parse(blob []byte) (*Map, error) {
	m := &Map{growth: 1}
	if len(blob) == 0 {
		return m, nil
	}
	if len(blob) < 4 {
		return nil, fmt.Errorf("%d bytes, want at least the size of its trie", len(blob))
	}
	size := binary.LittleEndian.Uint32(blob)
	blob = blob[4:]
	if size == 0 || size%4 != 0 || int64(size) > int64(len(blob)) {
		return nil, fmt.Errorf("a trie of %d bytes, but %d bytes follow: the data is cut short or damaged", size, len(blob))
	}
	if size/4 > maxUnits {
		return nil, fmt.Errorf("a trie of %d bytes, at most %d are supported", size, 4*maxUnits)
	}
	m.units, m.values = make([]uint32, size/4), make([]int32, size/4)
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(blob[4*i:])
	}
	m.root = offset(m.units[0])
	c := checker{Map: m, replacements: blob[size:], byPlace: map[uint32]int32{},
		checked: map[subtree]struct{}{}}
	if !utf8.Valid(c.replacements) {
		return nil, errors.New("its replacements are not valid UTF-8")
	}
	if err := c.check(m.root, make([]byte, 0, maxKeyBytes+1)); err != nil {
		return nil, err
	}
	return m, nil
}

// offset returns what a unit contains of the place of its children.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// checker checks all keys of a Map, so that next needs no checks, and finds their replacements.
type checker struct {
	*Map
	replacements []byte           // each ended by a zero byte
	byPlace      map[uint32]int32 // place of a replacement -> index
	checked      map[subtree]struct{}
}

// subtree has the keys that continue a prefix of a length. Prefixes may share it.
type subtree struct{ base, depth uint32 }

// check checks the keys that continue a prefix, whose children are at base.
func (c *checker) check(base uint32, prefix []byte) error {
	at := subtree{base, uint32(len(prefix))}
	if _, ok := c.checked[at]; ok {
		return nil
	}
	if c.checked[at] = struct{}{}; len(c.checked) > maxNodes || len(prefix) > maxKeyBytes {
		return fmt.Errorf("its trie has more than %d nodes or keys of more than %d bytes", maxNodes, maxKeyBytes)
	}
	for b := 1; b < 256; b++ {
		child, ends, ok := c.next(base, byte(b))
		if !ok {
			continue
		}
		if len(prefix) == 0 && b < utf8.RuneSelf {
			c.ascii[b] = true
		}
		key := append(prefix, byte(b))
		if ends {
			if err := c.addKey(key, child); err != nil {
				return err
			}
		}
		if err := c.check(child, key); err != nil {
			return err
		}
	}
	return nil
}

// addKey adds a key whose value is in the unit at a place.
func (c *checker) addKey(key []byte, at uint32) error {
	if uint64(at) >= uint64(len(c.units)) {
		return fmt.Errorf("key %q has its value outside of the trie", key)
	}
	place := c.units[at] & (1<<31 - 1)
	if uint64(place) >= uint64(len(c.replacements)) {
		return fmt.Errorf("key %q has its replacement at byte %d of %d", key, place, len(c.replacements))
	}
	index, ok := c.byPlace[place]
	if !ok {
		text, _, ended := bytes.Cut(c.replacements[place:], []byte{0})
		if !ended || len(text) > maxTextBytes || !utf8.Valid(text) {
			return fmt.Errorf("the replacement of key %q is not a text of at most %d bytes", key, maxTextBytes)
		}
		index = int32(len(c.texts))
		c.byPlace[place], c.texts = index, append(c.texts, text[:len(text):len(text)])
	}
	c.values[at] = index
	c.growth = max(c.growth, float64(len(c.texts[index]))/float64(len(key)))
	return nil
}

// next returns the place of the children of a node's child by a byte. ends reports that a key ends there, whose value
// is in the unit at that place; ok is false if no key continues so. base is the place of the node's children.
func (m *Map) next(base uint32, c byte) (child uint32, ends, ok bool) {
	at := base ^ uint32(c)
	if uint64(at) >= uint64(len(m.units)) {
		return 0, false, false
	}
	unit := m.units[at]
	if unit&(1<<31|0xFF) != uint32(c) || c == 0 {
		return 0, false, false
	}
	return at ^ offset(unit), unit>>8&1 == 1, true
}

// shortest returns the replacement of the shortest key with which s starts.
func (m *Map) shortest(s []byte) (text []byte, ok bool) {
	node := m.root
	for _, c := range s {
		var ends bool
		if node, ends, ok = m.next(node, c); !ok {
			return nil, false
		}
		if ends {
			return m.texts[m.values[node]], true
		}
	}
	return nil, false
}

// Longest returns the replacement of the longest key with which s starts, and the bytes of the key: 0 if there is none.
func (m *Map) Longest(s []byte) (text []byte, size int) {
	node, last := m.root, uint32(0)
	for i, c := range s {
		var ends, ok bool
		if node, ends, ok = m.next(node, c); !ok {
			break
		}
		if ends {
			last, size = node, i+1
		}
	}
	if size == 0 {
		return nil, 0
	}
	return m.texts[m.values[last]], size
}

// KeepsBeforeASCII reports whether no key changes the character c before another one below utf8.RuneSelf.
func (m *Map) KeepsBeforeASCII(c byte) bool {
	node, ends, ok := m.next(m.root, c)
	if !ok {
		return true
	}
	for after := range byte(utf8.RuneSelf) {
		if _, _, ok := m.next(node, after); ok {
			return false
		}
	}
	return !ends || string(m.texts[m.values[node]]) == string(rune(c))
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
