package definition_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

func TestPreTokenizer_RefusesUnsupported(t *testing.T) {
	level := byteLevel(false, false)
	regex := func(text string) object { return object{"Regex": text} }
	isolated := func(text string) object {
		return inSequence(splitOn(regex(text), "Isolated", false), level)
	}
	many := []any{level}
	for range pretokenize.MaxStages {
		many = append(many, object{"type": "Digits", "individual_digits": false})
	}
	for name, c := range map[string]struct {
		pre  object
		says string
	}{
		"unknown":                  {object{"type": "Whitespace"}, "Whitespace"},
		"unknown before ByteLevel": {inSequence(object{"type": "Whitespace"}, level), "Whitespace"},
		"characters are removed":   {inSequence(splitOn(regex(`\s+`), "Removed", false), level), "behavior"},
		"what is between is lost":  {inSequence(splitOn(regex(`\w+`), "Removed", true), level), "behavior"},
		"merged with previous":     {inSequence(splitOn(regex(`\s+`), "MergedWithPrevious", false), level), "behavior"},
		"no behavior": {inSequence(object{"type": "Split", "pattern": regex("a"), "invert": false}, level),
			"behavior"},
		"two patterns": {inSequence(splitOn(object{"Regex": "a", "String": "a"}, "Isolated", false), level),
			"String"},
		"no pattern":                {inSequence(splitOn(object{}, "Isolated", false), level), "Split"},
		"ByteLevel twice":           {inSequence(level, level), "twice"},
		"too many":                  {inSequence(many...), "12 parts"},
		"word border in a class":    {isolated(`[\b]`), `\\b`},
		"word border of bytes":      {inSequence(level, splitOn(regex(`\bx`), "Isolated", false)), "behind ByteLevel"},
		"nothing is merged":         {inSequence(splitOn(regex(`(?=a)`), "Contiguous", false), level), "behavior"},
		"groups that may go on":     {isolated(`(?=(\d{3})+\d)`), "more than one character"},
		"groups with any behind":    {isolated(`(?=(\d{3})+(?=.))`), "more than one character"},
		"groups of no word":         {isolated(`(?=(-{3})+\b)`), "more than one character"},
		"groups that are not there": {isolated(`(?!(\d{3})+$)`), "more than one character"},
		"different groups":          {isolated(`(?=(\d{3})+$)|(?=(\d{2})+$)`), "different groups"},
		"a count too large":         {isolated(`a{1001}`), "0..1000"},
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
		"ligature":                  {isolated(`(?i:st)`), "if case is ignored"},
		"escaped ligature":          {isolated(`(?i:\x53\u0054)`), "if case is ignored"},
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
		"MetaSpace is no ByteLevel": {inSequence(object{"type": "Metaspace", "replacement": "_"}, level), "Metaspace"},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			f["pre_tokenizer"] = c.pre
			_, err := definition.FromJSON(bytes.NewReader(tokentest.JSON(t, f)))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), format.PretokenizedHint) {
				t.Errorf("error %v, want one that contains %q and what to do", err, c.says)
			}
		})
	}
}

// superBPE is the pattern of SuperBPE, after Digits.
const superBPE = `(?=(\d{3})+(?!\d))| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// The expected words are those of Hugging Face tokenizers 0.23.
func TestPreTokenizer_SplitsLikeReference(t *testing.T) {
	regex := func(text string) object { return object{"Regex": text} }
	isolated := func(text string) object { return splitOn(regex(text), "Isolated", false) }
	digits := object{"type": "Digits", "individual_digits": false}
	for name, c := range map[string]struct {
		pre  object
		text string
		want []string
	}{
		"no pattern": {byteLevel(false, false), "a b 12", []string{"a b 12"}},
		"nested": {inSequence(inSequence(object{"type": "Digits", "individual_digits": false}), byteLevel(false, true)),
			"ab 12c",
			[]string{"ab", " ", "12", "c"}},
		"digits": {inSequence(object{"type": "Digits", "individual_digits": true}, byteLevel(false, true)),
			"a 12", []string{"a", " ", "1", "2"}},
		"text": {inSequence(splitOn(object{"String": "ab"}, "Isolated", false), byteLevel(false, false)),
			"xababy", []string{"x", "ab", "ab", "y"}},
		"merged matches": {inSequence(splitOn(object{"String": "ab"}, "Contiguous", false), byteLevel(false, false)),
			"xababy", []string{"x", "abab", "y"}},
		"only matches": {inSequence(splitOn(regex(`a+|[^a]`), "Removed", true), byteLevel(false, false)), "xaay",
			[]string{"x", "aa", "y"}},
		"punctuation": {inSequence(object{"type": "Punctuation"}, byteLevel(false, true)), "a?!",
			[]string{"a", "?", "!"}},
		"punctuation together": {inSequence(object{"type": "Punctuation", "behavior": "Contiguous"}, byteLevel(false, true)),
			"a ?!", []string{"a", " ", "?!"}},
		"groups of three": {inSequence(digits, isolated(superBPE), byteLevel(false, false)),
			"is 1234567, 123a", []string{"is", " ", "1", "234", "567", ",", " ", "123", "a"}},
		"groups of three with a word border": {inSequence(isolated(`\d{1,3}(?=(?:\d{3})*\b)`), byteLevel(false, false)),
			"a1234567 123a", []string{"a", "1", "234", "567", " 123a"}},
		"a border of the piece": {inSequence(digits, isolated(`\Baa|ab`), byteLevel(false, false)),
			"1aab", []string{"1", "a", "ab"}},
		"many at most": {inSequence(isolated(`a{1,510}`), byteLevel(false, false)),
			strings.Repeat("a", 511), []string{strings.Repeat("a", 510), "a"}},
		"bytes that are digits": {
			inSequence(byteLevel(false, true), object{"type": "Digits", "individual_digits": false}), "\u00f2\u00b2x",
			[]string{"\xc3", "\xb2", "\xc2", "\xb2", "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			f["pre_tokenizer"] = c.pre
			d := tokentest.Definition(t, f)
			if got := tokentest.Words(&d.Family.Splitter, []byte(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%q is cut into %q, want %q", c.text, got, c.want)
			}
		})
	}
}
