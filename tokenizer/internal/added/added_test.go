package added

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// firstToken returns the leftmost-longest token by its definition.
func firstToken(contents []string, s []byte, i int) (start int, content string) {
	for ; i < len(s); i++ {
		for _, c := range contents {
			if bytes.HasPrefix(s[i:], []byte(c)) && len(c) > len(content) {
				content = c
			}
		}
		if content != "" {
			return i, content
		}
	}
	return len(s), ""
}

func setOf(contents []string) Set {
	var tokens []Token
	for i, c := range contents {
		tokens = append(tokens, Token{Content: c, ID: int32(i)})
	}
	return NewSet(tokens, ' ')
}

func TestSet_FindsLeftmostLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for range 3000 {
		letters := "abcd"[:2+r.IntN(3)]
		var contents []string
		for range 1 + r.IntN(12) {
			if c := word(letters, 1+r.IntN(7)); !slices.Contains(contents, c) {
				contents = append(contents, c)
			}
		}
		set := setOf(contents)
		for range 20 {
			s := []byte(word(letters+"x", r.IntN(40)))
			for i := 0; i < len(s); {
				wantStart, want := firstToken(contents, s, i)
				start, end, token := set.find(s, i)
				got := ""
				if token != nil {
					got = token.Content
				}
				if start != wantStart || end != wantStart+len(want) || got != want {
					t.Fatalf("tokens %q: from %d on in %q there is %q at %d:%d, want %q at %d", contents, i, s, got, start, end,
						want, wantStart)
				}
				i = max(end, i+1)
			}
		}
	}
}

// The work per byte of a text is bounded for any tokens, such as a token that the text almost contains everywhere,
// and its prefixes.
func TestSet_FindsInLinearTime(t *testing.T) {
	const n = 1 << 20
	long := strings.Repeat("a", n)
	set := setOf([]string{long[:n/2] + "b", long[:n/4] + "c"})
	if start, _, token := set.find([]byte(long), 0); token != nil || start != n {
		t.Errorf("there is %v at %d of a text that holds none", token, start)
	}
	if start, _, token := set.find([]byte(long+"c"), 0); token == nil || start != n-n/4 {
		t.Errorf("there is %v at %d, want the second at %d", token, start, n-n/4)
	}
	spaces := []byte(strings.Repeat(" ", n))
	set = NewSet([]Token{{Content: " ", Rstrip: true}, {Content: "  ", Lstrip: true, Rstrip: true}}, ' ')
	cut := NewCutter(&set, spaces, false)
	found := 0
	for _, id := cut.Next(); id >= 0; _, id = cut.Next() {
		found++
	}
	if found == 0 {
		t.Error("no token is found")
	}
}
