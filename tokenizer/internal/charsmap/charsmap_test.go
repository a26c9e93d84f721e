package charsmap_test

import (
	"encoding/binary"
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
