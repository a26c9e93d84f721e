package filter

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literals are the texts that a regular expression without unbounded repetitions matches. A text matches the
// expression if one of them occurs in it. Searching for them is faster than package regexp.
type literals []literal

// literal is a text that may occur anywhere, or only at the start or at the end of the searched text. It contains no
// U+FFFD, which would also match invalid UTF-8.
type literal struct {
	text           string
	atStart, atEnd bool
}

// maxLiterals is the maximum number of texts. Beyond it, package regexp is faster.
const maxLiterals = 16

// matcher returns a function with the results of re.MatchString. parsed and program are the expression of re.
func matcher(parsed *syntax.Regexp, program *syntax.Prog, re *regexp.Regexp) func(string) bool {
	parts := trimRepetitions(concatenated(parsed.Simplify()))
	if all, ok := literalsOf(parts); ok {
		return all.occursIn
	}
	if gap := gapMatcher(parts); gap != nil {
		return gap
	}
	match := re.MatchString
	if a := newAutomaton(program); a != nil {
		match = a.matches
	}
	if part := longestLiterals(parts); part != nil {
		return func(s string) bool { return part.occursIn(s) && match(s) }
	}
	return match
}

func (a literals) occursIn(s string) bool {
	for i := range a {
		if a[i].occursIn(s) {
			return true
		}
	}
	return false
}

func (l *literal) occursIn(s string) bool {
	switch {
	case l.atStart && l.atEnd:
		return s == l.text
	case l.atStart:
		return strings.HasPrefix(s, l.text)
	case l.atEnd:
		return strings.HasSuffix(s, l.text)
	}
	return strings.Contains(s, l.text)
}

// concatenated returns the parts of an expression.
func concatenated(re *syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture:
		return concatenated(re.Sub[0])
	case syntax.OpConcat:
		return re.Sub
	}
	return []*syntax.Regexp{re}
}

// trimRepetitions removes repetitions at the start and at the end, where the match may begin and end anywhere: x*a
// matches the same texts as a, and x+a the same as xa.
func trimRepetitions(parts []*syntax.Regexp) []*syntax.Regexp {
	parts = slices.Clone(parts)
	for _, i := range []func() int{func() int { return 0 }, func() int { return len(parts) - 1 }} {
		for len(parts) > 1 && slices.Contains([]syntax.Op{syntax.OpStar, syntax.OpQuest}, parts[i()].Op) {
			parts = slices.Delete(parts, i(), i()+1)
		}
		if parts[i()].Op == syntax.OpPlus {
			parts[i()] = parts[i()].Sub[0]
		}
	}
	return parts
}

// literalsOf returns the literals of an expression by its parts; ok is false if it has none, or too many.
func literalsOf(parts []*syntax.Regexp) (all literals, ok bool) {
	all = literals{{}}
	for _, part := range parts {
		next, ok := literalsOfPart(part)
		if !ok {
			return nil, false
		}
		if all, ok = all.followedBy(next); !ok {
			return nil, false
		}
	}
	return all, true
}

// followedBy returns the literals of the concatenation of two expressions.
func (a literals) followedBy(b literals) (all literals, ok bool) {
	if len(a)*len(b) > maxLiterals {
		return nil, false
	}
	for _, x := range a {
		for _, y := range b {
			if x.atEnd && y.text != "" || y.atStart && x.text != "" {
				continue // never matches
			}
			all = append(all, literal{x.text + y.text, x.atStart || y.atStart, x.atEnd || y.atEnd})
		}
	}
	return all, true
}

func literalsOfPart(re *syntax.Regexp) (all literals, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return literals{{}}, true
	case syntax.OpBeginText:
		return literals{{atStart: true}}, true
	case syntax.OpEndText:
		return literals{{atEnd: true}}, true
	case syntax.OpCapture, syntax.OpConcat:
		return literalsOf(re.Sub)
	case syntax.OpLiteral:
		return literalsOfText(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCharClass:
		var runes []rune
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && len(runes) <= maxLiterals; r++ {
				runes = append(runes, r)
			}
		}
		return literalsOfRunes(runes)
	case syntax.OpQuest:
		all, ok = literalsOfPart(re.Sub[0])
		return append(all, literal{}), ok && len(all) < maxLiterals
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			next, ok := literalsOfPart(sub)
			if all = append(all, next...); !ok || len(all) > maxLiterals {
				return nil, false
			}
		}
		return all, true
	}
	return nil, false
}

func literalsOfText(text []rune, ignoreCase bool) (all literals, ok bool) {
	if !ignoreCase {
		return literals{{text: string(text)}}, !slices.ContainsFunc(text, isAmbiguous)
	}
	all = literals{{}}
	for _, r := range text {
		equal := []rune{r}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			equal = append(equal, f)
		}
		next, ok := literalsOfRunes(equal)
		if !ok {
			return nil, false
		}
		if all, ok = all.followedBy(next); !ok {
			return nil, false
		}
	}
	return all, true
}

// isAmbiguous reports whether package regexp finds a rune in texts that do not contain its bytes, or finds it never.
func isAmbiguous(r rune) bool { return r == utf8.RuneError || !utf8.ValidRune(r) }

func literalsOfRunes(runes []rune) (all literals, ok bool) {
	for _, r := range runes {
		if isAmbiguous(r) {
			return nil, false
		}
		all = append(all, literal{text: string(r)})
	}
	return all, len(all) <= maxLiterals
}

// longestLiterals returns the literals of the part of an expression whose shortest literal is the longest. A text that
// contains none of them does not match. It returns nil if no part has literals.
func longestLiterals(parts []*syntax.Regexp) (best literals) {
	longest := 0
	for i := range parts {
		all := literals{{}}
		for _, part := range parts[i:] {
			next, ok := literalsOfPart(part)
			if !ok {
				break
			}
			if all, ok = all.followedBy(next); !ok || len(all) == 0 {
				break
			}
			shortest := slices.MinFunc(all, func(a, b literal) int { return len(a.text) - len(b.text) })
			if n := len(shortest.text); n > longest {
				best, longest = all, n
			}
		}
	}
	return best
}

// gapMatcher returns the function of an expression such as ^src/.*[.]py$: literals at the start, any characters, and
// literals at the end. It returns nil for other expressions.
func gapMatcher(parts []*syntax.Regexp) func(string) bool {
	isGap := func(re *syntax.Regexp) bool {
		return (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) &&
			(re.Sub[0].Op == syntax.OpAnyChar || re.Sub[0].Op == syntax.OpAnyCharNotNL)
	}
	i := slices.IndexFunc(parts, isGap)
	if i < 0 {
		return nil
	}
	starts, ok := literalsOf(parts[:i])
	ends, ok2 := literalsOf(parts[i+1:])
	if !ok || !ok2 || slices.ContainsFunc(starts, func(l literal) bool { return !l.atStart || l.atEnd }) ||
		slices.ContainsFunc(ends, func(l literal) bool { return l.atStart || !l.atEnd }) {
		return nil
	}
	least, line := 0, parts[i].Sub[0].Op == syntax.OpAnyCharNotNL
	if parts[i].Op == syntax.OpPlus {
		least = 1
	}
	return func(s string) bool {
		for _, start := range starts {
			if !strings.HasPrefix(s, start.text) {
				continue
			}
			for _, end := range ends {
				gap, ok := strings.CutSuffix(s[len(start.text):], end.text)
				if ok && len(gap) >= least && !(line && strings.Contains(gap, "\n")) {
					return true
				}
			}
		}
		return false
	}
}
