package pattern

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// literalSet returns the set of a literal character; under (?i: ) it includes the letters with the same case folding.
func (p *parser) literalSet(r rune) ucd.Set {
	set := ucd.SetOf(r)
	if p.ignoresCase {
		return p.foldCase(set)
	}
	return set
}

// foldCase adds the other case of ASCII letters, with the long s and the Kelvin sign.
func (p *parser) foldCase(set ucd.Set) ucd.Set {
	var more []rune
	for _, r := range set {
		if r.Hi >= utf8.RuneSelf {
			p.fail("ignoring the case of what is not ASCII")
		}
		for c := r.Lo; c <= r.Hi; c++ {
			if c|0x20 < 'a' || c|0x20 > 'z' {
				continue
			}
			more = append(more, c^0x20)
			switch c | 0x20 {
			case 's':
				more = append(more, 'ſ')
			case 'k':
				more = append(more, '\u212A')
			}
		}
	}
	return set.Union(ucd.SetOf(more...))
}

// parseClass parses [...], with nested classes and intersections (&&).
func (p *parser) parseClass() ucd.Set {
	defer p.enterGroup()()
	p.expect("[")
	not := p.accept("^")
	var set ucd.Set
	var all []ucd.Set // operands of && so far
	for first := true; ; first = false {
		switch {
		case p.hasPrefix("]") && (first || set == nil):
			p.fail("an empty class")
		case p.accept("]"):
			if p.ignoresCase {
				set = p.foldCase(set)
			}
			for _, other := range all {
				set = set.Intersect(other)
			}
			if not {
				return set.Complement()
			}
			return set
		case p.accept("&&"):
			if set == nil || p.ignoresCase {
				p.fail("&&")
			}
			all = append(all, set)
			set = nil
		case p.hasPrefix("[:"):
			p.fail("[:")
		case p.hasPrefix("["):
			set = set.Union(p.parseClass())
		default:
			set = set.Union(p.parseClassRange(first))
		}
	}
}

// parseClassRange parses a character, an escape, or a range of characters within a class.
func (p *parser) parseClassRange(first bool) ucd.Set {
	lo, single := p.parseClassMember()
	if p.text[p.at-1] == '-' && !first && !p.hasPrefix("]") && p.text[p.at-2] != '\\' {
		p.fail("a bare - inside of a class")
	}
	if !p.hasPrefix("-") || p.hasPrefix("-]") {
		return lo
	}
	if !single {
		p.fail("a range from a class")
	}
	p.at++
	if p.hasPrefix("[") || p.hasPrefix("&&") {
		p.fail("a range to a class")
	}
	hi, single := p.parseClassMember()
	if !single || hi[0].Lo < lo[0].Lo {
		p.fail("a range to a lower character, or to a class")
	}
	return ucd.SetOfRange(lo[0].Lo, hi[0].Lo)
}

func (p *parser) parseClassMember() (set ucd.Set, single bool) {
	if p.hasPrefix(`\w`) || p.hasPrefix(`\W`) {
		// In the reference these are part of \w outside of a class, but not within one.
		latin := ucd.SetOf(0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE)
		set, _ := p.parseEscape()
		if p.text[p.at-1] == 'W' {
			return set.Union(latin), false
		}
		return set.Intersect(latin.Complement()), false
	}
	if p.hasPrefix(`\`) {
		return p.parseEscape()
	}
	r := p.nextRune()
	return ucd.SetOf(r), true
}

// parseEscape parses an escape sequence: a single character, or a class.
func (p *parser) parseEscape() (set ucd.Set, single bool) {
	p.expect(`\`)
	c := p.nextRune()
	char := func(r rune) (ucd.Set, bool) {
		return ucd.SetOf(r), true
	}
	switch c {
	case 'r':
		return char('\r')
	case 'n':
		return char('\n')
	case 't':
		return char('\t')
	case 'f':
		return char('\f')
	case 'v':
		return char('\v')
	case 'x':
		return char(p.parseHex(2, utf8.RuneSelf-1))
	case 'u':
		return char(p.parseHex(4, 0xFFFF))
	case 's':
		set = ucd.WhiteSpace()
	case 'S':
		set = ucd.WhiteSpace().Complement()
	case 'd':
		set = ucd.InCategory("Nd")
	case 'D':
		set = ucd.InCategory("Nd").Complement()
	case 'w':
		set = ucd.WordCharacters()
	case 'W':
		set = ucd.WordCharacters().Complement()
	case 'p', 'P':
		set = p.parseProperty(c == 'P')
	default:
		if c >= utf8.RuneSelf || c < '!' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			p.fail(`\%c`, c)
		}
		return p.literalSet(c), true
	}
	if p.ignoresCase {
		p.fail(`\%c where case is ignored`, c)
	}
	return set, false
}

func (p *parser) parseHex(digits int, most rune) rune {
	if len(p.text)-p.at < digits {
		p.fail("the pattern ends early")
	}
	n, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
	if err != nil || rune(n) > most || n >= 0xD800 && n < 0xE000 {
		p.fail("the character %q", p.text[p.at:p.at+digits])
	}
	p.at += digits
	return rune(n)
}

func (p *parser) parseProperty(not bool) ucd.Set {
	p.expect("{")
	name, _, ok := strings.Cut(p.text[p.at:], "}")
	if !ok {
		p.fail("want }")
	}
	p.at += len(name) + 1
	if strings.HasPrefix(name, "^") {
		name, not = name[1:], !not
	}
	var set ucd.Set
	switch {
	case ucd.IsCategory(name):
		set = ucd.InCategory(name)
	case name == "Han":
		set = ucd.Han()
	default:
		p.fail(`the property %q`, name)
	}
	if not {
		return set.Complement()
	}
	return set
}
