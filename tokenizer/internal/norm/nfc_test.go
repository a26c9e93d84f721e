package norm

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNFC_Examples(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"plain é":            "plain é",
		"e\u0301":            "é",
		"e\u0323\u0301":      "ẹ\u0301",
		"e\u0301\u0323":      "ẹ\u0301",
		"a\u0301\u0301b":     "á\u0301b",
		"\u0301":             "\u0301",
		"\u212b\u2126":       "ÅΩ",
		"\u0958":             "\u0915\u093c", // excluded from composition
		"\u1112\u1161\u11ab": "한",
		"한\u11ab":            "한\u11ab",
		"하\u11ab":            "한",
		"\u0f71\u0f72\u0f74": "\u0f71\u0f72\u0f74",
		"a\u0345\u0301":      "á\u0345",
		"x" + strings.Repeat("\u0301", 40) + "\u0323": "x\u0323" + strings.Repeat("\u0301", 40), // no U+034F between
	} {
		var n normalizer
		if got := string(n.nfc([]byte(text))); got != want {
			t.Errorf("%+q becomes %+q, want %+q", text, got, want)
		}
	}
}

func FuzzNFC(f *testing.F) {
	f.Add([]byte("a\u0323\u0301 하\u11ab \u0958 \u0344"))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = AppendValid(nil, text)
		var n, again normalizer
		once := bytes.Clone(n.nfc(text))
		if !utf8.Valid(once) || !bytes.Equal(again.nfc(once), once) {
			t.Fatalf("%+q becomes %+q, then %+q", text, once, again.nfc(once))
		}
	})
}
