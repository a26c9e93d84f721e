package norm

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestAppendValid_ReplacesInvalidUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"\xf0\x9f\x98":     "\ufffd",
		"a\xe4\xb8b":       "a\ufffdb",
		"\xed\xa0\x80":     "\ufffd\ufffd\ufffd",
		"\xc0\x80":         "\ufffd\ufffd",
		"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
		"\xe1\x80\xe1":     "\ufffd\ufffd",
		"\ufffd\xff":       "\ufffd\ufffd",
	} {
		if got := string(AppendValid(nil, []byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// All short texts of the bytes at which the states of the validation change.
func TestValid_ShortTexts(t *testing.T) {
	bytes := []byte("a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF")
	text := []byte("        abcd")
	for at := range 13 {
		for n := range len(bytes) * len(bytes) * len(bytes) * len(bytes) {
			s := append(text[:at:at], bytes[n%24], bytes[n/24%24], bytes[n/24/24%24], bytes[n/24/24/24])
			if Valid(s) != utf8.Valid(s) {
				t.Fatalf("%q is valid: %t", s, utf8.Valid(s))
			}
		}
	}
}

func FuzzValid(f *testing.F) {
	f.Add([]byte("a\xf0\x9f\x98 \xed\xa0\x80\xc0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if Valid(text) != utf8.Valid(text) {
			t.Fatalf("%q is valid: %t", text, !utf8.Valid(text))
		}
		got := AppendValid(nil, text)
		if !utf8.Valid(got) || utf8.Valid(text) && !bytes.Equal(got, text) {
			t.Fatalf("%q becomes %q", text, got)
		}
	})
}
