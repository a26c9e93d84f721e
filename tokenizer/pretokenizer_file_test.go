package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

func TestRefusedPreTokenizers(t *testing.T) {
	level := tokentest.ByteLevel(false, false)
	regex := func(text string) tokentest.Object { return tokentest.Object{"Regex": text} }
	isolated := func(text string) tokentest.Object {
		return tokentest.InSequence(tokentest.SplitOn(regex(text), "Isolated", false), level)
	}
	many := []any{level}
	for range pretokenize.MaxStages {
		many = append(many, tokentest.Object{"type": "Digits", "individual_digits": false})
	}
	for name, c := range map[string]struct {
		pre  tokentest.Object
		says string
	}{
		"unknown":                   {tokentest.Object{"type": "Whitespace"}, "Whitespace"},
		"unknown before ByteLevel":  {tokentest.InSequence(tokentest.Object{"type": "Whitespace"}, level), "Whitespace"},
		"characters are removed":    {tokentest.InSequence(tokentest.SplitOn(regex(`\s+`), "Removed", false), level), "behavior"},
		"what is between is lost":   {tokentest.InSequence(tokentest.SplitOn(regex(`\w+`), "Removed", true), level), "behavior"},
		"merged with previous":      {tokentest.InSequence(tokentest.SplitOn(regex(`\s+`), "MergedWithPrevious", false), level), "behavior"},
		"no behavior":               {tokentest.InSequence(tokentest.Object{"type": "Split", "pattern": regex("a"), "invert": false}, level), "behavior"},
		"two patterns":              {tokentest.InSequence(tokentest.SplitOn(tokentest.Object{"Regex": "a", "String": "a"}, "Isolated", false), level), "String"},
		"no pattern":                {tokentest.InSequence(tokentest.SplitOn(tokentest.Object{}, "Isolated", false), level), "Split"},
		"ByteLevel twice":           {tokentest.InSequence(level, level), "twice"},
		"too many":                  {tokentest.InSequence(many...), "12 parts"},
		"word border":               {isolated(`\bx`), `\\b`},
		"look behind":               {isolated(`(?<=a)b`), "group"},
		"look at two":               {isolated(`a(?!bc)`), "more than one character"},
		"back reference":            {isolated(`(a)\1`), `\\1`},
		"start of line":             {isolated(`^a`), "^"},
		"nothing matches":           {isolated(`a*`), "nothing"},
		"empty":                     {isolated(``), "nothing"},
		"empty loop":                {isolated(`(?:a*)+b`), "empty"},
		"possessive that matters":   {isolated(`a++ab`), "possessive"},
		"possessive before a look":  {isolated(`\s++(?!\S)`), "possessive"},
		"count with a quantifier":   {isolated(`a{2}+`), "count"},
		"count without end":         {isolated(`a{1,99999999999}`), "count"},
		"counts in counts":          {isolated(`(?:(?:(?:(?:a{1,64}){1,64}){1,64}){1,64}){1,64}`), "large"},
		"no end":                    {isolated(`a+b`), "without end"},
		"the rest of a line":        {isolated(`[^\n]*\n`), "without end"},
		"ligature":                  {isolated(`(?i:st)`), "where case is ignored"},
		"escaped ligature":          {isolated(`(?i:\x53\u0054)`), "where case is ignored"},
		"case of other letters":     {isolated(`(?i:é)`), "not ASCII"},
		"unclosed class":            {isolated(`[a`), "early"},
		"unclosed group":            {isolated(`(a`), "want )"},
		"unopened group":            {isolated(`a)`), "unmatched"},
		"groups in groups":          {isolated(strings.Repeat("(", 100) + "a" + strings.Repeat(")", 100)), "in one another"},
		"empty class":               {isolated(`[]`), "empty class"},
		"unknown property":          {isolated(`\p{Klingon}`), "Klingon"},
		"POSIX class":               {isolated(`[[:alpha:]]`), "[:"},
		"backwards":                 {isolated(`[z-a]`), "lower"},
		"bare hyphen":               {isolated(`[a-c-e]`), "bare -"},
		"surrogate":                 {isolated(`\uD800`), "D800"},
		"MetaSpace is no ByteLevel": {tokentest.InSequence(tokentest.Object{"type": "Metaspace", "replacement": "_"}, level), "Metaspace"},
	} {
		t.Run(name, func(t *testing.T) {
			f := tokentest.SmallFile(tokentest.ABC...)
			f["pre_tokenizer"] = c.pre
			_, err := loadFile(t, f, Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), format.Advice) {
				t.Errorf("error %v, want one that says %q and what to do", err, c.says)
			}
		})
	}
}

// The words were taken from Hugging Face tokenizers 0.23.
func TestPreTokenizers(t *testing.T) {
	regex := func(text string) tokentest.Object { return tokentest.Object{"Regex": text} }
	for name, c := range map[string]struct {
		pre  tokentest.Object
		text string
		want []string
	}{
		"no pattern":           {tokentest.ByteLevel(false, false), "a b 12", []string{"a b 12"}},
		"nested":               {tokentest.InSequence(tokentest.InSequence(tokentest.Object{"type": "Digits", "individual_digits": false}), tokentest.ByteLevel(false, true)), "ab 12c", []string{"ab", " ", "12", "c"}},
		"digits":               {tokentest.InSequence(tokentest.Object{"type": "Digits", "individual_digits": true}, tokentest.ByteLevel(false, true)), "a 12", []string{"a", " ", "1", "2"}},
		"text":                 {tokentest.InSequence(tokentest.SplitOn(tokentest.Object{"String": "ab"}, "Isolated", false), tokentest.ByteLevel(false, false)), "xababy", []string{"x", "ab", "ab", "y"}},
		"merged matches":       {tokentest.InSequence(tokentest.SplitOn(tokentest.Object{"String": "ab"}, "Contiguous", false), tokentest.ByteLevel(false, false)), "xababy", []string{"x", "abab", "y"}},
		"only matches":         {tokentest.InSequence(tokentest.SplitOn(regex(`a+|[^a]`), "Removed", true), tokentest.ByteLevel(false, false)), "xaay", []string{"x", "aa", "y"}},
		"punctuation":          {tokentest.InSequence(tokentest.Object{"type": "Punctuation"}, tokentest.ByteLevel(false, true)), "a?!", []string{"a", "?", "!"}},
		"punctuation together": {tokentest.InSequence(tokentest.Object{"type": "Punctuation", "behavior": "Contiguous"}, tokentest.ByteLevel(false, true)), "a ?!", []string{"a", " ", "?!"}},
		"bytes that are digits": {
			tokentest.InSequence(tokentest.ByteLevel(false, true), tokentest.Object{"type": "Digits", "individual_digits": false}), "\u00f2\u00b2x", []string{"\xc3", "\xb2", "\xc2", "\xb2", "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := tokentest.SmallFile(tokentest.ABC...)
			f["pre_tokenizer"] = c.pre
			m := mustLoadFile(t, f, Options{})
			if got := tokentest.Words(&m.split, []byte(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%q is cut into %q, want %q", c.text, got, c.want)
			}
		})
	}
}

// A space before each piece shows where a text is cut: the ids are those of bytes.
func TestSpaceBeforePieces(t *testing.T) {
	f := tokentest.SmallFile()
	f["pre_tokenizer"] = tokentest.InSequence(tokentest.Object{"type": "Digits", "individual_digits": false}, tokentest.ByteLevel(true, true), tokentest.Object{"type": "Digits", "individual_digits": false})
	m := mustLoadFile(t, f, Options{})
	got, err := m.Decode(nil, m.NewEncoder().Encode(nil, []byte("ab12 c 3")))
	if want := " ab 12 c  3"; err != nil || string(got) != want {
		t.Errorf("pieces %q, %v, want %q", got, err, want)
	}
}
