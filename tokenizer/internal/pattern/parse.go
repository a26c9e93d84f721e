// Package pattern finds the matches of the reference implementation's regular expressions. It parses an expression to
// a tree, and converts the tree to a deterministic automaton, which finds the match of a backtracking engine in one
// pass. It refuses expressions for which the two may differ, or whose time may be quadratic in the length of the
// text.
package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// Expr is a node of a parsed pattern.
type Expr struct {
	Kind     Kind
	Set      ucd.Set // of One, Next and Groups
	OrEnd    bool    // Next also holds at the end of the text; Groups may end there
	After    ucd.Set // of Groups: the following character
	Negated  bool    // Edge is negated
	Parts    []*Expr // of Sequence, Choice and Repeat
	Min, Max int     // of Repeat; Max < 0 is unbounded. Min is the size of Groups
	Mode     Mode
}

// OneOf returns the pattern of one character of a set.
func OneOf(set ucd.Set) *Expr { return &Expr{Kind: Character, Set: set} }

// LiteralText returns the pattern of a literal text.
func LiteralText(text string) *Expr {
	e := &Expr{Kind: Sequence}
	for _, r := range text {
		e.Parts = append(e.Parts, OneOf(ucd.SetOf(r)))
	}
	return e
}

// Kind is what a node of a pattern matches.
type Kind uint8

// The kinds of nodes.
const (
	Character    Kind = iota // a character of Set
	Sequence                 // Parts in sequence
	Choice                   // the first of Parts that matches
	Repeat                   // Parts[0], Min to Max times
	Lookahead                // empty match, if the next character is in Set
	WordBoundary             // empty match, where a word starts or ends
	// empty match, if groups of Min characters of Set follow, and then Behind or the end of the text
	GroupsLookahead
)

// Mode is the order in which a Repeat tries the permitted numbers of repetitions.
type Mode uint8

// The modes of quantifiers: as often as possible, as seldom as possible, and as often as possible without
// backtracking.
const (
	Greedy Mode = iota
	Lazy
	Possessive
)

// parser parses the part of the reference's regular expressions (Oniguruma, Ruby's syntax) whose meaning is the same
// in every engine: characters, classes, groups, alternatives, quantifiers, lookahead at one character, edges of
// words, and lookahead at groups of characters to the end of their run.
type parser struct {
	text        string
	at          int
	ignoresCase bool // within (?i: )
	depth       int
}

// maxDepth bounds the nesting of groups and classes.
const maxDepth = 20

type syntaxError struct{ reason string }

func (e syntaxError) Error() string { return e.reason }

// Parse returns the tree of a pattern. The error describes what is unsupported.
func Parse(text string) (e *Expr, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case syntaxError:
			e, err = nil, p
		default:
			panic(p)
		}
	}()
	p := &parser{text: text}
	if !utf8.ValidString(text) {
		p.fail("invalid UTF-8")
	}
	e = p.parseChoice()
	if p.at < len(text) {
		p.fail("unmatched )")
	}
	return e, nil
}

func (p *parser) fail(format string, args ...any) {
	panic(syntaxError{fmt.Sprintf(format, args...) + " at byte " + strconv.Itoa(p.at)})
}

func (p *parser) hasMore() bool           { return p.at < len(p.text) }
func (p *parser) hasPrefix(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }
func (p *parser) peek() byte              { return p.text[p.at] }
func (p *parser) accept(s string) bool    { return p.hasPrefix(s) && p.skip(len(s)) }

func (p *parser) skip(n int) bool { p.at += n; return true }

func (p *parser) expect(s string) {
	if !p.accept(s) {
		p.fail("want %s", s)
	}
}

func (p *parser) nextRune() rune {
	if !p.hasMore() {
		p.fail("the pattern ends early")
	}
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return r
}

func (p *parser) enterGroup() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail("too many groups in one another")
	}
	return func() { p.depth-- }
}

func (p *parser) parseChoice() *Expr {
	defer p.enterGroup()()
	e := &Expr{Kind: Choice}
	for {
		e.Parts = append(e.Parts, p.parseSequence())
		if !p.accept("|") {
			break
		}
	}
	if len(e.Parts) == 1 {
		return e.Parts[0]
	}
	return e
}

func (p *parser) parseSequence() *Expr {
	e := &Expr{Kind: Sequence}
	for p.hasMore() && p.peek() != '|' && p.peek() != ')' {
		part := p.parseQuantifier(p.parseAtom())
		if n := len(e.Parts); p.ignoresCase && n > 0 && foldTogether(e.Parts[n-1].Set, part.Set) {
			p.fail("letters that one character may match if case is ignored")
		}
		e.Parts = append(e.Parts, part)
	}
	return e
}

// foldTogether reports whether a and b contain letters whose sequence has the same case folding as one character: ff,
// fi, fl, ss, st.
func foldTogether(a, b ucd.Set) bool {
	for _, pair := range []string{"ff", "fi", "fl", "ss", "st"} {
		if a.Has(rune(pair[0])) && b.Has(rune(pair[1])) {
			return true
		}
	}
	return false
}

func (p *parser) parseAtom() *Expr {
	switch c := p.peek(); c {
	case '(':
		return p.parseGroup()
	case '[':
		return &Expr{Kind: Character, Set: p.parseClass()}
	case '.':
		p.at++
		return &Expr{Kind: Character, Set: ucd.SetOf('\n').Complement()}
	case '$':
		p.at++
		return &Expr{Kind: Lookahead, Set: ucd.SetOf('\n'), OrEnd: true}
	case '\\':
		if p.accept(`\b`) {
			return &Expr{Kind: WordBoundary}
		}
		if p.accept(`\B`) {
			return &Expr{Kind: WordBoundary, Negated: true}
		}
		set, single := p.parseEscape()
		if single && p.ignoresCase { // \x53 is a letter too
			set = p.foldCase(set)
		}
		return &Expr{Kind: Character, Set: set}
	case '*', '+', '?', '^', '{', '}', ']':
		p.fail("%c", c)
	}
	return &Expr{Kind: Character, Set: p.literalSet(p.nextRune())}
}

func (p *parser) parseGroup() *Expr {
	fold := p.ignoresCase
	defer func() { p.ignoresCase = fold }()
	p.expect("(")
	switch {
	case p.accept("?:"):
	case p.accept("?i:"):
		p.ignoresCase = true
	case p.accept("?="):
		return p.parseLookahead(false)
	case p.accept("?!"):
		return p.parseLookahead(true)
	case p.hasPrefix("?"):
		p.fail("group (%.4s", p.text[p.at:])
	}
	if fold {
		p.fail("a group where case is ignored")
	}
	e := p.parseChoice()
	p.expect(")")
	return e
}

// parseLookahead parses a lookahead at one character, or at groups to the end of a run.
func (p *parser) parseLookahead(not bool) *Expr {
	body := p.parseChoice().unwrap()
	p.expect(")")
	if body.Kind != Character {
		if e, ok := parseGroups(body); ok && !not {
			return e
		}
		p.fail("a look at more than one character")
	}
	if not {
		return &Expr{Kind: Lookahead, Set: body.Set.Complement(), OrEnd: true}
	}
	return &Expr{Kind: Lookahead, Set: body.Set}
}

// unwrap returns the only part of a group with a single part, otherwise e.
func (e *Expr) unwrap() *Expr {
	for e.Kind == Sequence && len(e.Parts) == 1 {
		e = e.Parts[0]
	}
	return e
}

// parseGroups converts a lookahead at groups of a set's characters to the end of their run, such as (\d{3})+(?!\d) or
// (\d{3})*\b. What follows them is not in the set, so they extend to the end of the run.
func parseGroups(body *Expr) (e *Expr, ok bool) {
	if body.Kind != Sequence || len(body.Parts) != 2 {
		return nil, false
	}
	all, end := body.Parts[0], body.Parts[1]
	if all.Kind != Repeat || all.Mode != Greedy || all.Max >= 0 || all.Min > 1 {
		return nil, false
	}
	e = &Expr{Kind: GroupsLookahead, Min: 1}
	one := all.Parts[0].unwrap()
	if one.Kind == Repeat && one.Min == one.Max {
		e.Min, one = one.Min, one.Parts[0].unwrap()
	}
	if e.Set = one.Set; one.Kind != Character || e.Set == nil {
		return nil, false
	}
	switch {
	case end.Kind == Lookahead:
		e.After, e.OrEnd = end.Set, end.OrEnd
	case end.Kind == WordBoundary && !end.Negated && e.Set.Intersect(ucd.WordCharacters().Complement()) == nil:
		e.After, e.OrEnd = ucd.WordCharacters().Complement(), true
	default:
		return nil, false
	}
	if e.Set.Intersect(e.After) != nil {
		return nil, false
	}
	if all.Min == 0 {
		e = &Expr{Kind: Choice, Parts: []*Expr{e, end}}
	}
	return e, true
}

// maxRepeat bounds counted repeats, which are expanded. maxStates bounds their total.
const maxRepeat = 1000

func (p *parser) parseQuantifier(e *Expr) *Expr {
	if !p.hasMore() {
		return e
	}
	q := &Expr{Kind: Repeat, Parts: []*Expr{e}, Max: -1}
	switch p.peek() {
	case '?':
		q.Max = 1
		p.at++
	case '*':
		p.at++
	case '+':
		q.Min = 1
		p.at++
	case '{':
		p.at++
		q.Min, q.Max = p.parseCounts()
		if p.hasMore() && strings.IndexByte("?*+{", p.peek()) >= 0 {
			p.fail("a quantifier behind a count") // its meaning differs between engines
		}
		return p.checkQuantifier(q)
	default:
		return e
	}
	switch {
	case p.accept("?"):
		q.Mode = Lazy
	case p.accept("+"):
		q.Mode = Possessive
	}
	if p.hasMore() && strings.IndexByte("?*+{", p.peek()) >= 0 {
		p.fail("a quantifier of a quantifier")
	}
	return p.checkQuantifier(q)
}

func (p *parser) checkQuantifier(q *Expr) *Expr {
	if q.Parts[0].canBeEmpty(true) {
		p.fail("a quantifier of what may be empty")
	}
	return q
}

func (p *parser) parseCounts() (least, most int) {
	least = p.parseNumber()
	most = least
	if p.accept(",") {
		most = -1
		if !p.hasPrefix("}") {
			most = p.parseNumber()
		}
	}
	p.expect("}")
	if most == 0 || most > 0 && most < least {
		p.fail("counts {%d,%d}", least, most)
	}
	return least, most
}

func (p *parser) parseNumber() int {
	start := p.at
	for p.hasMore() && p.peek() >= '0' && p.peek() <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n > maxRepeat {
		p.fail("a count that is not in 0..%d", maxRepeat)
	}
	return n
}

// canBeEmpty reports whether e may match the empty text, with looks also as a lookahead or an edge does.
func (e *Expr) canBeEmpty(looks bool) bool {
	switch e.Kind {
	case Character:
		return false
	case Lookahead, WordBoundary, GroupsLookahead:
		return looks
	case Repeat:
		return e.Min == 0
	}
	for _, part := range e.Parts {
		if part.canBeEmpty(looks) == (e.Kind == Choice) {
			return e.Kind == Choice
		}
	}
	return e.Kind == Sequence
}
