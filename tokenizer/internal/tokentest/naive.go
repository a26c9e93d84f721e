package tokentest

import (
	"strings"
	"sync"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pattern"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/ucd"
)

// Backtracker finds matches by trying every way. It counts its steps, because some patterns and texts need very many.
type Backtracker struct {
	steps int
	whole string // the searched text
}

const maxSteps = 1 << 20

// match matches a pattern's tree at the start of text as a backtracking engine does. It calls then for each way in
// turn, until one succeeds, and returns the rest after the match. After maxSteps it finds nothing.
func (b *Backtracker) match(e *pattern.Expr, text string, then func(rest string) (string, bool)) (string, bool) {
	if b.steps++; b.steps > maxSteps {
		return "", false
	}
	switch e.Kind {
	case pattern.Character:
		if r, n := utf8.DecodeRuneInString(text); n > 0 && e.Set.Has(r) {
			return then(text[n:])
		}
	case pattern.Lookahead:
		if r, n := utf8.DecodeRuneInString(text); n > 0 && e.Set.Has(r) || n == 0 && e.OrEnd {
			return then(text)
		}
	case pattern.WordBoundary:
		if b.isEdge(text) != e.Negated {
			return then(text)
		}
	case pattern.GroupsLookahead:
		if inGroups(e, text) {
			return then(text)
		}
	case pattern.Sequence:
		if len(e.Parts) == 0 {
			return then(text)
		}
		return b.match(e.Parts[0], text, func(rest string) (string, bool) {
			return b.match(&pattern.Expr{Kind: pattern.Sequence, Parts: e.Parts[1:]}, rest, then)
		})
	case pattern.Choice:
		for _, part := range e.Parts {
			if rest, ok := b.match(part, text, then); ok {
				return rest, true
			}
		}
	case pattern.Repeat:
		return b.repeat(e, text, then)
	}
	return "", false
}

// isEdge reports whether a word starts or ends before text, which is the rest of the whole text.
func (b *Backtracker) isEdge(text string) bool {
	before, n := utf8.DecodeLastRuneInString(b.whole[:len(b.whole)-len(text)])
	behind, m := utf8.DecodeRuneInString(text)
	return (n > 0 && words.Has(before)) != (m > 0 && words.Has(behind))
}

var words = ucd.WordCharacters()

// inGroups reports whether text starts with some groups and what may follow them.
func inGroups(e *pattern.Expr, text string) bool {
	for count := 0; ; count++ {
		r, n := utf8.DecodeRuneInString(text)
		if count > 0 && count%e.Min == 0 && (n == 0 && e.OrEnd || n > 0 && e.After.Has(r)) {
			return true
		}
		if n == 0 || !e.Set.Has(r) {
			return false
		}
		text = text[n:]
	}
}

func (b *Backtracker) repeat(e *pattern.Expr, text string, then func(rest string) (string, bool)) (string, bool) {
	fewer := &pattern.Expr{Kind: pattern.Repeat, Parts: e.Parts, Min: max(e.Min-1, 0), Max: e.Max - 1, Mode: e.Mode}
	if e.Max < 0 {
		fewer.Max = e.Max
	}
	more := func() (string, bool) {
		if e.Max == 0 {
			return "", false
		}
		if e.Mode == pattern.Possessive {
			first, ok := b.match(e.Parts[0], text, func(rest string) (string, bool) { return rest, true })
			if !ok {
				return "", false
			}
			return b.repeat(fewer, first, then)
		}
		return b.match(e.Parts[0], text, func(rest string) (string, bool) { return b.repeat(fewer, rest, then) })
	}
	if e.Min > 0 {
		return more()
	}
	if e.Mode == pattern.Lazy {
		if rest, ok := then(text); ok {
			return rest, true
		}
		return more()
	}
	if rest, ok := more(); ok {
		return rest, true
	}
	if e.Mode == pattern.Possessive && e.Max != 0 {
		if _, again := b.match(e.Parts[0], text, func(rest string) (string, bool) { return rest, true }); again {
			return "", false
		}
	}
	return then(text)
}

// NaiveWords splits a text by the parts of a family, given by its name, one after the other.
func NaiveWords(name, text string) []string {
	words := []string{text}
	for part := range strings.SplitSeq(name, pretokenize.PartSeparator) {
		e, ok := parts.Load(part)
		if !ok {
			e = parse(part)
			parts.Store(part, e)
		}
		var cut []string
		for _, w := range words {
			cut = append(cut, new(Backtracker).Split(e.(*pattern.Expr), w)...)
		}
		words = cut
	}
	return words
}

var parts sync.Map // name -> *pattern.Expr

func parse(name string) *pattern.Expr {
	if name == pretokenize.DigitsPart {
		return &pattern.Expr{Kind: pattern.Character, Set: ucd.Digits()}
	}
	regex, ok := strings.CutPrefix(name, "regex ")
	if !ok {
		panic(name)
	}
	e, err := pattern.Parse(regex)
	if err != nil {
		panic(err)
	}
	return e
}

// Split returns the matches of a pattern and the text between them.
func (b *Backtracker) Split(e *pattern.Expr, text string) (pieces []string) {
	gap := ""
	flush := func() {
		if gap != "" {
			pieces = append(pieces, gap)
		}
		gap = ""
	}
	b.whole = text
	for text != "" {
		end := b.matchEnd(e, text)
		if end == 0 {
			flush()
		}
		if end <= 0 {
			_, n := utf8.DecodeRuneInString(text)
			gap, text = gap+text[:n], text[n:]
			continue
		}
		flush()
		pieces = append(pieces, text[:end])
		text = text[end:]
	}
	flush()
	return pieces
}

// matchEnd returns the length of the match at the start of text, or -1.
func (b *Backtracker) matchEnd(e *pattern.Expr, text string) int {
	rest, ok := b.match(e, text, func(rest string) (string, bool) { return rest, true })
	if !ok {
		return -1
	}
	return len(text) - len(rest)
}

// IsExhausted reports whether a text took so many steps that the result is incomplete.
func (b *Backtracker) IsExhausted() bool { return b.steps > maxSteps }

// MatchesAll reports whether consecutive matches extend to the end of text.
func (b *Backtracker) MatchesAll(e *pattern.Expr, text string) bool {
	b.whole = text
	for text != "" {
		end := b.matchEnd(e, text)
		if end <= 0 {
			return false
		}
		text = text[end:]
	}
	return true
}
