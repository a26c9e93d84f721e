package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// literal is a character that stands for itself; under (?i: ) for the letters that fold to the same as well.
func (p *patternParser) literal(r rune) runeSet {
	set := newRuneSet(runeRange{r, r})
	if p.fold {
		return p.folded(set)
	}
	return set
}

// folded adds the other case of ASCII letters, with the long s and the Kelvin sign.
func (p *patternParser) folded(set runeSet) runeSet {
	var more []runeRange
	for _, r := range set {
		if r.hi >= utf8.RuneSelf {
			p.fail("ignoring the case of what is not ASCII")
		}
		for c := r.lo; c <= r.hi; c++ {
			if c|0x20 < 'a' || c|0x20 > 'z' {
				continue
			}
			more = append(more, runeRange{c ^ 0x20, c ^ 0x20})
			switch c | 0x20 {
			case 's':
				more = append(more, runeRange{'ſ', 'ſ'})
			case 'k':
				more = append(more, runeRange{'\u212A', '\u212A'})
			}
		}
	}
	return set.union(newRuneSet(more...))
}

// class reads [...], with classes in it and intersections (&&).
func (p *patternParser) class() runeSet {
	defer p.deeper()()
	p.expect("[")
	not := p.accept("^")
	var set runeSet
	var all []runeSet // the operands of && so far
	for first := true; ; first = false {
		switch {
		case p.sees("]") && (first || set == nil):
			p.fail("an empty class")
		case p.accept("]"):
			if p.fold {
				set = p.folded(set)
			}
			for _, other := range all {
				set = set.intersect(other)
			}
			if not {
				return set.complement()
			}
			return set
		case p.accept("&&"):
			if set == nil || p.fold {
				p.fail("&&")
			}
			all = append(all, set)
			set = nil
		case p.sees("[:"):
			p.fail("[:")
		case p.sees("["):
			set = set.union(p.class())
		default:
			set = set.union(p.classRange(first))
		}
	}
}

// classRange reads a character, an escape, or a range of characters inside of a class.
func (p *patternParser) classRange(first bool) runeSet {
	lo, single := p.classMember()
	if p.text[p.at-1] == '-' && !first && !p.sees("]") && p.text[p.at-2] != '\\' {
		p.fail("a bare - inside of a class")
	}
	if !p.sees("-") || p.sees("-]") {
		return lo
	}
	if !single {
		p.fail("a range from a class")
	}
	p.at++
	if p.sees("[") || p.sees("&&") {
		p.fail("a range to a class")
	}
	hi, single := p.classMember()
	if !single || hi[0].lo < lo[0].lo {
		p.fail("a range to a lower character, or to a class")
	}
	return runeSet{{lo[0].lo, hi[0].lo}}
}

func (p *patternParser) classMember() (set runeSet, single bool) {
	if p.sees(`\w`) || p.sees(`\W`) {
		// The reference takes these for \w outside of a class, but not inside of one.
		latin := newRuneSet(runeRange{0xB2, 0xB3}, runeRange{0xB9, 0xB9}, runeRange{0xBC, 0xBE})
		set, _ := p.escape()
		if p.text[p.at-1] == 'W' {
			return set.union(latin), false
		}
		return set.intersect(latin.complement()), false
	}
	if p.sees(`\`) {
		return p.escape()
	}
	r := p.rune()
	return newRuneSet(runeRange{r, r}), true
}

// escape reads what a backslash begins: a single character, or a class.
func (p *patternParser) escape() (set runeSet, single bool) {
	p.expect(`\`)
	c := p.rune()
	char := func(r rune) (runeSet, bool) {
		return newRuneSet(runeRange{r, r}), true
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
		return char(p.hex(2, utf8.RuneSelf-1))
	case 'u':
		return char(p.hex(4, 0xFFFF))
	case 's':
		set = whiteSpace()
	case 'S':
		set = whiteSpace().complement()
	case 'd':
		set = inCategory("Nd")
	case 'D':
		set = inCategory("Nd").complement()
	case 'w':
		set = withFlag(wordFlag)
	case 'W':
		set = withFlag(wordFlag).complement()
	case 'p', 'P':
		set = p.propertySet(c == 'P')
	default:
		if c >= utf8.RuneSelf || c < '!' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			p.fail(`\%c`, c)
		}
		return p.literal(c), true
	}
	if p.fold {
		p.fail(`\%c where case is ignored`, c)
	}
	return set, false
}

func (p *patternParser) hex(digits int, most rune) rune {
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

func (p *patternParser) propertySet(not bool) runeSet {
	p.expect("{")
	name, _, ok := strings.Cut(p.text[p.at:], "}")
	if !ok {
		p.fail("want }")
	}
	p.at += len(name) + 1
	if strings.HasPrefix(name, "^") {
		name, not = name[1:], !not
	}
	var set runeSet
	switch {
	case isCategory(name):
		set = inCategory(name)
	case name == "Han":
		set = withFlag(hanFlag)
	default:
		p.fail(`the property %q`, name)
	}
	if not {
		return set.complement()
	}
	return set
}
