package pattern_test

import (
	"slices"
	"testing"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pattern"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// Few patterns of the fuzzer are supported. These must match according to the definition.
func FuzzPattern(f *testing.F) {
	for _, p := range pretokenize.Families {
		for _, part := range p.Parts {
			f.Add(part, "It's  12345\n\n //x\r\n/HTTPServer'LL  中文 \u00a0")
		}
	}
	for _, part := range []string{`a?b*?c+(?!\S)|[^a-c]{1,3}`, `a+?b??c?|.{2,3}`, `(?:ab|a)(?:c|bcd)|.`,
		`\s?\p{L}+|[\w-]$`,
		`(?i:'[sk])?x|[^x]`, `[a-z&&[^b]]++|\W`, `\b`, `\B`, `\w+?\b| \B`,
		`(?=(\d{3})+(?!\d))| ?\p{L}+`, `\d{1,3}(?=(?:\d{3})*\b)`, `(?=a)|b+$`,
		`\p{N}(?=(\d\d)+$)`, `(?=[a-d]+-)`, `a{1,700}`, `(?=(?:a{2})+(?=b))\w|\b.`} {
		f.Add(part, "abcd abab-'S'ſ'K'Kx  \n")
		f.Add(part, "aaab 1234567 ٣٣٣٣ a1234, 12²345x123456 b")
	}
	f.Fuzz(func(t *testing.T, part, text string) {
		if len(part) > 400 || len(text) > 80 {
			return
		}
		e, err := pattern.Parse(part)
		if err != nil {
			return
		}
		p, err := pattern.Compile(e)
		if err != nil {
			return
		}
		text = string(norm.AppendValid(nil, []byte(text)))
		var b tokentest.Backtracker
		want := b.Split(e, text)
		if b.IsExhausted() {
			return
		}
		if got := cutAt(p, []byte(text)); !slices.Equal(got, want) {
			t.Fatalf("%s: %q is cut into %q, want %q", part, text, got, want)
		}
		if p.IsTotal() && !b.MatchesAll(e, text) {
			t.Fatalf("%s: %q has places where nothing matches", part, text)
		}
	})
}

// cutAt returns the matches of a pattern and the text between them.
func cutAt(p *pattern.Pattern, s []byte) (pieces []string) {
	var a pattern.SearchState
	for i := 0; i < len(s); {
		end := p.MatchIn(s, i, &a)
		if end <= i {
			end = p.SkipToMatch(s, i, &a)
		}
		pieces = append(pieces, string(s[i:end]))
		i = end
	}
	return pieces
}
