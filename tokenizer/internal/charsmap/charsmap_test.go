package charsmap_test

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/charsmap"
)

// small returns a charsmap with the key "a", which is replaced by text.
func small(text string) []byte {
	const value, leaf = 1 << 31, 1 << 8
	array := make([]uint32, 256)
	array[0] = 1 << 10 // children at 1
	array[1^'a'] = 'a' | leaf | (1^'a'^3)<<10
	array[3] = value // of the key, whose children are at 3
	blob := binary.LittleEndian.AppendUint32(nil, uint32(4*len(array)))
	for _, unit := range array {
		blob = binary.LittleEndian.AppendUint32(blob, unit)
	}
	return append(append(blob, text...), 0)
}

// written returns a charsmap of keys and their replacements.
func written(keys map[string]string) []byte {
	const value, leaf = 1 << 31, 1 << 8
	units, bases, texts := map[uint32]uint32{0: 0}, map[uint32]bool{}, []byte{}
	var place func(at uint32, prefix string)
	place = func(at uint32, prefix string) { // the children of the node in a unit
		text, isKey := keys[prefix]
		var labels []uint32
		if isKey {
			labels = append(labels, 0)
		}
		for key := range keys {
			if rest, ok := strings.CutPrefix(key, prefix); ok && rest != "" && !slices.Contains(labels, uint32(rest[0])) {
				labels = append(labels, uint32(rest[0]))
			}
		}
		base := uint32(1)
		for bases[base] || slices.ContainsFunc(labels, func(c uint32) bool { _, used := units[base^c]; return used }) {
			base++
		}
		bases[base] = true
		units[at] |= (at ^ base) << 10
		for _, c := range labels {
			units[base^c] = c
		}
		if isKey {
			units[at] |= leaf
			units[base] = value | uint32(len(texts))
			texts = append(append(texts, text...), 0)
			labels = labels[1:]
		}
		for _, c := range labels {
			place(base^c, prefix+string([]byte{byte(c)}))
		}
	}
	place(0, "")
	last := slices.Max(slices.Collect(maps.Keys(units)))
	blob := binary.LittleEndian.AppendUint32(nil, 4*(last+1))
	for at := range last + 1 {
		blob = binary.LittleEndian.AppendUint32(blob, units[at])
	}
	return append(blob, texts...)
}

// The longest key is that of a search through all keys, and the charsmap keeps the characters that no key changes.
func TestMap_FindsKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for range 200 {
		letters := "ab\x01\xff\xe4"[:2+r.IntN(4)]
		keys, growth := map[string]string{}, 1.0
		for range r.IntN(60) {
			key, text := word(letters, 1+r.IntN(5)), word("abc", r.IntN(4))
			keys[key] = text
		}
		for key, text := range keys {
			growth = max(growth, float64(len(text))/float64(len(key)))
		}
		m, err := charsmap.Parse(written(keys))
		if err != nil {
			t.Fatal(err)
		}
		if m.Growth() != growth {
			t.Errorf("growth %f, want %f", m.Growth(), growth)
		}
		for range 50 {
			s := word(letters+"\x00", r.IntN(8))
			want, size := "", 0
			for n := range len(s) + 1 {
				if text, ok := keys[s[:n]]; ok {
					want, size = text, n
				}
			}
			if text, n := m.Longest([]byte(s)); string(text) != want || n != size {
				t.Fatalf("%q of %q: %q, %d bytes, want %q, %d", s, keys, text, n, want, size)
			}
		}
		for c := range byte(utf8.RuneSelf) {
			keeps := true
			for key, text := range keys {
				one := key[0] == c && len(key) == 1 && text != key
				keeps = keeps && !one && !(len(key) > 1 && key[0] == c && key[1] < utf8.RuneSelf)
			}
			if m.KeepsBeforeASCII(c) != keeps {
				t.Fatalf("%q of %q: %v, want %v", c, keys, !keeps, keeps)
			}
		}
	}
}

// A grapheme that starts with a key is replaced as a whole, marks included, as in the reference.
func TestMap_ReplacesGraphemes(t *testing.T) {
	m, err := charsmap.Parse(small("xy"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "", "ba": "bxy", "a\u0301b": "xyb", "b\u0301a": "b\u0301xy",
		"a\u0301\u0301\u0301": "xy\u0301\u0301\u0301"} {
		if have := string(m.AppendGraphemes(nil, []byte(text))); have != want {
			t.Errorf("%q becomes %q, want %q", text, have, want)
		}
	}
}

func TestParse_RefusesDamage(t *testing.T) {
	good := small("xy")
	for name, blob := range map[string][]byte{"short": good[:3], "cut": good[:500], "no text": good[:len(good)-3],
		"not ended": good[:len(good)-1], "not UTF-8": small("\xff")} {
		if _, err := charsmap.Parse(blob); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A charsmap from a file never fails later: replaced text is valid and of bounded length.
func FuzzParse(f *testing.F) {
	f.Add(small("xy"), "ba\u0301")
	f.Add(small("xy")[:600], "a")
	f.Fuzz(func(t *testing.T, blob []byte, text string) {
		m, err := charsmap.Parse(blob)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		have := m.AppendGraphemes(nil, []byte(text))
		if len(have) > int(m.Growth()*float64(len(text)))+1 {
			t.Errorf("%d bytes become %d, growth %f", len(text), len(have), m.Growth())
		}
	})
}
