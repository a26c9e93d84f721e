package pretokenize

import (
	"errors"
	"strings"

	"loaderd/tokenizer/internal/pattern"
	"loaderd/tokenizer/internal/ucd"
)

// Builder collects the parts of a pre-tokenizer, in order. A behavior is what the reference calls so: what becomes of
// the matches of a pattern, and of what is between them.
type Builder struct {
	list      []splitPart
	byteLevel bool // what follows sees bytes as characters of the alphabet
	pieces    int  // the parts in front of ByteLevel: it puts a space before each of their pieces
}

// splitPart is a pattern that cuts, by a name that is the same whenever it cuts the same.
type splitPart struct {
	name  string
	stage stage
}

// ErrBehavior is the error for a behavior that drops characters, or joins matches with what is beside them.
var ErrBehavior = errors.New("a behavior that does not only cut")

// AddByteLevel adds the ByteLevel pre-tokenizer, with its own pattern or without.
func (b *Builder) AddByteLevel(prefixSpace, useRegex bool) error {
	if prefixSpace {
		b.pieces = len(b.list)
	}
	var err error
	if useRegex {
		err = b.AddRegex(ByteLevelPattern, "Isolated", false)
	}
	b.byteLevel = true
	return err
}

// AddDigits cuts at the digits.
func (b *Builder) AddDigits(behavior string) error {
	return b.cut(DigitsPart, pattern.OneOf(ucd.Digits()), behavior, false)
}

// AddPunctuation cuts at punctuation.
func (b *Builder) AddPunctuation(behavior string) error {
	return b.cut("punctuation", pattern.OneOf(ucd.Punctuation()), behavior, false)
}

// AddText cuts at the places where a text is.
func (b *Builder) AddText(text, behavior string, invert bool) error {
	return b.cut("text "+text, pattern.Literally(text), behavior, invert)
}

// AddRegex cuts at the matches of a regular expression. The error is ErrBehavior, or says what is not known in the
// expression.
func (b *Builder) AddRegex(regex, behavior string, invert bool) error {
	if regex == trailingPattern && behavior == "Isolated" && !b.byteLevel {
		b.list = append(b.list, splitPart{name: regexName(regex)})
		return nil
	}
	e, err := pattern.Parse(regex)
	if err != nil {
		return err
	}
	return b.cut(regexName(regex), e, behavior, invert)
}

// LooksAround reports whether a regular expression asks for more of a place than one next character, or may match
// nothing.
func LooksAround(regex string) bool {
	e, err := pattern.Parse(regex)
	if err != nil {
		return false
	}
	p, err := pattern.Compile(e)
	return err == nil && (p.LooksAround() || p.Empty())
}

// regexName names a pattern by its text, with line ends as escapes: both spellings are common, and mean the same.
func regexName(regex string) string {
	return "regex " + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex)
}

// cut adds a part that cuts at the matches of a pattern.
func (b *Builder) cut(name string, e *pattern.Expr, behavior string, invert bool) error {
	p, err := pattern.Compile(e)
	if err != nil {
		return err
	}
	st := stage{pattern: p}
	switch {
	case behavior == "Isolated":
	case p.Empty():
		return ErrBehavior
	case behavior == "Contiguous":
		st.merged = true
		name += " merged"
	case behavior == "Removed" && invert && p.Total(): // nothing is between the matches
	default:
		return ErrBehavior
	}
	if b.byteLevel && p.LooksAround() {
		return errors.New("a look at words or groups behind ByteLevel")
	}
	if b.byteLevel {
		st.pattern = p.OnAlphabet(byteOfRune)
		name = "bytes " + name
	}
	b.list = append(b.list, splitPart{name, st})
	return nil
}

// Family is the known one of these parts, or one that goes through them.
func (b *Builder) Family() *Family {
	before, list := b.list[:b.pieces], b.list[b.pieces:]
	f := &Family{Name: nameOf(list)}
	f.Splitter = newSplitter(stagesOf(list), ruleOf(f.Name))
	if len(before) > 0 {
		f.Name = nameOf(before) + BetweenParts + "space" + BetweenParts + f.Name
		f.Pieces = stagesOf(before)
	}
	return f
}

// BetweenParts is between the names of the parts of a family.
const BetweenParts = "\n"

func nameOf(list []splitPart) string {
	names := make([]string, len(list))
	for i, part := range list {
		names[i] = part.name
	}
	return strings.Join(names, BetweenParts)
}

func stagesOf(list []splitPart) Stages {
	all := make(Stages, len(list))
	for i, part := range list {
		all[i] = part.stage
	}
	return all
}
