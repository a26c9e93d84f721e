package invalidutf8_test

import (
	"strings"
	"testing"

	"loaderd/internal/invalidutf8"
)

func TestCount_InvalidBytes(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a\u00e9\u20ac\U0001f600": 0, "\ufffd": 0, "\xff": 1, "a\xe9b": 1, "\xe2\x82": 2, "\xed\xa0\x80": 3,
		"\xc0\xaf": 2,
	} {
		if n := invalidutf8.Count([]byte(text)); n != want {
			t.Errorf("%q: %d bytes, want %d", text, n, want)
		}
	}
}

func TestExceeds_ShareOfBytes(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    bool
	}{{0, 0, false}, {1, 100, false}, {1, 99, true}, {2, 200, false}, {2, 199, true}} {
		if got := invalidutf8.Exceeds(c.n, c.size); got != c.want {
			t.Errorf("%d of %d: %v", c.n, c.size, got)
		}
	}
	text := []byte(strings.Repeat("x", 99) + "\xff")
	if invalidutf8.Exceeds(invalidutf8.Count(text), len(text)) {
		t.Error("1 of 100 bytes exceeds the share")
	}
}
