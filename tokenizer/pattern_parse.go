package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// expr is a node of a parsed pattern.
type expr struct {
	kind     exprKind
	set      ucd.Set // of one, and of next
	orEnd    bool    // next holds at the end of the text too
	parts    []*expr // of sequence and choice
	min, max int     // of repeat; max < 0 is without end
	mode     repeatMode
}

// oneOf is the pattern of one character of a set.
func oneOf(set ucd.Set) *expr { return &expr{kind: one, set: set} }

// literally is the pattern of a text.
func literally(text string) *expr {
	e := &expr{kind: sequence}
	for _, r := range text {
		e.parts = append(e.parts, oneOf(ucd.Of(r)))
	}
	return e
}

type exprKind uint8

const (
	one      exprKind = iota // a character of set
	sequence                 // parts, one behind the other
	choice                   // the first of parts that matches
	repeat                   // parts[0], min to max times
	next                     // nothing, if the next character is in set
)

type repeatMode uint8

const (
	greedy repeatMode = iota
	lazy
	possessive
)

// patternParser reads the part of the reference's regular expressions (Oniguruma, Ruby's syntax) whose meaning is the
// same for every engine: characters, classes, groups, alternatives, quantifiers, and a look at one next character.
type patternParser struct {
	text  string
	at    int
	fold  bool // inside (?i: )
	depth int
}

// maxPatternDepth bounds groups and classes in one another.
const maxPatternDepth = 20

type patternError struct{ reason string }

func (e patternError) Error() string { return e.reason }

// parsePattern returns the tree of a pattern, or says what it does not know in it.
func parsePattern(text string) (e *expr, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case patternError:
			e, err = nil, p
		default:
			panic(p)
		}
	}()
	p := &patternParser{text: text}
	if !utf8.ValidString(text) {
		p.fail("invalid UTF-8")
	}
	e = p.choice()
	if p.at < len(text) {
		p.fail("unmatched )")
	}
	return e, nil
}

func (p *patternParser) fail(format string, args ...any) {
	panic(patternError{fmt.Sprintf(format, args...) + " at byte " + strconv.Itoa(p.at)})
}

func (p *patternParser) more() bool           { return p.at < len(p.text) }
func (p *patternParser) sees(s string) bool   { return strings.HasPrefix(p.text[p.at:], s) }
func (p *patternParser) peek() byte           { return p.text[p.at] }
func (p *patternParser) accept(s string) bool { return p.sees(s) && p.skip(len(s)) }

func (p *patternParser) skip(n int) bool { p.at += n; return true }

func (p *patternParser) expect(s string) {
	if !p.accept(s) {
		p.fail("want %s", s)
	}
}

func (p *patternParser) rune() rune {
	if !p.more() {
		p.fail("the pattern ends early")
	}
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return r
}

func (p *patternParser) deeper() func() {
	if p.depth++; p.depth > maxPatternDepth {
		p.fail("too many groups in one another")
	}
	return func() { p.depth-- }
}

func (p *patternParser) choice() *expr {
	defer p.deeper()()
	e := &expr{kind: choice}
	for {
		e.parts = append(e.parts, p.sequence())
		if !p.accept("|") {
			break
		}
	}
	if len(e.parts) == 1 {
		return e.parts[0]
	}
	return e
}

func (p *patternParser) sequence() *expr {
	e := &expr{kind: sequence}
	for p.more() && p.peek() != '|' && p.peek() != ')' {
		part := p.quantified(p.atom())
		if n := len(e.parts); p.fold && n > 0 && foldTogether(e.parts[n-1].set, part.set) {
			p.fail("letters that one character may stand for where case is ignored")
		}
		e.parts = append(e.parts, part)
	}
	return e
}

// foldTogether tells whether a and b have letters that fold to the same as one character does: ff, fi, fl, ss, st.
func foldTogether(a, b ucd.Set) bool {
	for _, pair := range []string{"ff", "fi", "fl", "ss", "st"} {
		if a.Has(rune(pair[0])) && b.Has(rune(pair[1])) {
			return true
		}
	}
	return false
}

func (p *patternParser) atom() *expr {
	switch c := p.peek(); c {
	case '(':
		return p.group()
	case '[':
		return &expr{kind: one, set: p.class()}
	case '.':
		p.at++
		return &expr{kind: one, set: ucd.Of('\n').Complement()}
	case '$':
		p.at++
		return &expr{kind: next, set: ucd.Of('\n'), orEnd: true}
	case '\\':
		set, single := p.escape()
		if single && p.fold { // \x53 is a letter too
			set = p.folded(set)
		}
		return &expr{kind: one, set: set}
	case '*', '+', '?', '^', '{', '}', ']':
		p.fail("%c", c)
	}
	return &expr{kind: one, set: p.literal(p.rune())}
}

func (p *patternParser) group() *expr {
	fold := p.fold
	defer func() { p.fold = fold }()
	p.expect("(")
	switch {
	case p.accept("?:"):
	case p.accept("?i:"):
		p.fold = true
	case p.accept("?="):
		return p.look(false)
	case p.accept("?!"):
		return p.look(true)
	case p.sees("?"):
		p.fail("group (%.4s", p.text[p.at:])
	}
	if fold {
		p.fail("a group where case is ignored")
	}
	e := p.choice()
	p.expect(")")
	return e
}

// look is a look ahead at one character.
func (p *patternParser) look(not bool) *expr {
	body := p.choice()
	p.expect(")")
	if body.kind == sequence && len(body.parts) == 1 {
		body = body.parts[0]
	}
	if body.kind != one {
		p.fail("a look at more than one character")
	}
	if not {
		return &expr{kind: next, set: body.set.Complement(), orEnd: true}
	}
	return &expr{kind: next, set: body.set}
}

// maxRepeat bounds counted repeats, which are written out.
const maxRepeat = 64

func (p *patternParser) quantified(e *expr) *expr {
	if !p.more() {
		return e
	}
	q := &expr{kind: repeat, parts: []*expr{e}, max: -1}
	switch p.peek() {
	case '?':
		q.max = 1
		p.at++
	case '*':
		p.at++
	case '+':
		q.min = 1
		p.at++
	case '{':
		p.at++
		q.min, q.max = p.counts()
		if p.more() && strings.IndexByte("?*+{", p.peek()) >= 0 {
			p.fail("a quantifier behind a count") // it means other things in other engines
		}
		return p.checked(q)
	default:
		return e
	}
	switch {
	case p.accept("?"):
		q.mode = lazy
	case p.accept("+"):
		q.mode = possessive
	}
	if p.more() && strings.IndexByte("?*+{", p.peek()) >= 0 {
		p.fail("a quantifier of a quantifier")
	}
	return p.checked(q)
}

func (p *patternParser) checked(q *expr) *expr {
	if q.parts[0].nullable() {
		p.fail("a quantifier of what may be empty")
	}
	return q
}

func (p *patternParser) counts() (least, most int) {
	least = p.number()
	most = least
	if p.accept(",") {
		most = -1
		if !p.sees("}") {
			most = p.number()
		}
	}
	p.expect("}")
	if most == 0 || most > 0 && most < least {
		p.fail("counts {%d,%d}", least, most)
	}
	return least, most
}

func (p *patternParser) number() int {
	start := p.at
	for p.more() && p.peek() >= '0' && p.peek() <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n > maxRepeat {
		p.fail("a count that is not in 0..%d", maxRepeat)
	}
	return n
}

// nullable tells whether e may match nothing.
func (e *expr) nullable() bool {
	switch e.kind {
	case one:
		return false
	case next:
		return true
	case repeat:
		return e.min == 0
	}
	for _, part := range e.parts {
		if part.nullable() == (e.kind == choice) {
			return e.kind == choice
		}
	}
	return e.kind == sequence
}
