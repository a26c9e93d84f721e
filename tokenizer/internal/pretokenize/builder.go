package pretokenize

import (
	"errors"
	"strings"

	"loaderd/tokenizer/internal/pattern"
	"loaderd/tokenizer/internal/ucd"
)

// Builder collects the parts of a pre-tokenizer, in order. A behavior is the reference's term for how the matches of
// a pattern and the text between them are treated.
type Builder struct {
	list        []splitPart
	byteLevel   bool // the following parts see bytes as characters of the alphabet
	spacedParts int  // number of parts before a ByteLevel that puts a space before each of their pieces
}

// splitPart is a pattern that splits, with a name that is equal for equal splits.
type splitPart struct {
	name  string
	stage stage
}

// ErrUnsupportedBehavior is the error for a behavior that drops characters, or joins matches with adjacent text.
var ErrUnsupportedBehavior = errors.New("a behavior that does not only cut")

// AddByteLevel adds the ByteLevel pre-tokenizer, with or without its own pattern.
func (b *Builder) AddByteLevel(prefixSpace, useRegex bool) error {
	if prefixSpace {
		b.spacedParts = len(b.list)
	}
	var err error
	if useRegex {
		err = b.AddRegex(ByteLevelPattern, "Isolated", false)
	}
	b.byteLevel = true
	return err
}

// AddDigits splits at the digits.
func (b *Builder) AddDigits(behavior string) error {
	return b.addPart(DigitsPart, pattern.OneOf(ucd.Digits()), behavior, false)
}

// AddPunctuation splits at punctuation.
func (b *Builder) AddPunctuation(behavior string) error {
	return b.addPart("punctuation", pattern.OneOf(ucd.Punctuation()), behavior, false)
}

// AddText splits at the occurrences of a text.
func (b *Builder) AddText(text, behavior string, invert bool) error {
	return b.addPart("text "+text, pattern.LiteralText(text), behavior, invert)
}

// AddRegex splits at the matches of a regular expression. The error is ErrUnsupportedBehavior, or describes what is
// unsupported in the expression.
func (b *Builder) AddRegex(regex, behavior string, invert bool) error {
	if regex == trailingPattern && behavior == "Isolated" && !b.byteLevel {
		b.list = append(b.list, splitPart{name: regexName(regex)})
		return nil
	}
	e, err := pattern.Parse(regex)
	if err != nil {
		return err
	}
	return b.addPart(regexName(regex), e, behavior, invert)
}

// HasLookaround reports whether a regular expression requires more of a place than the next character, or may match the
// empty text.
func HasLookaround(regex string) bool {
	e, err := pattern.Parse(regex)
	if err != nil {
		return false
	}
	p, err := pattern.Compile(e)
	return err == nil && (p.HasPlaceConditions() || p.CanMatchEmpty())
}

// regexName returns the name of a pattern: its text, with line ends as escapes. Both spellings are common, and have
// the same meaning.
func regexName(regex string) string {
	return "regex " + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex)
}

// addPart adds a part that splits at the matches of a pattern.
func (b *Builder) addPart(name string, e *pattern.Expr, behavior string, invert bool) error {
	p, err := pattern.Compile(e)
	if err != nil {
		return err
	}
	st := stage{pattern: p}
	switch {
	case behavior == "Isolated":
	case p.CanMatchEmpty():
		return ErrUnsupportedBehavior
	case behavior == "Contiguous":
		st.mergesMatches = true
		name += " merged"
	case behavior == "Removed" && invert && p.IsTotal(): // the matches leave no text between them
	default:
		return ErrUnsupportedBehavior
	}
	if b.byteLevel && p.HasPlaceConditions() {
		return errors.New("a look at words or groups behind ByteLevel")
	}
	if b.byteLevel {
		st.pattern = p.OnAlphabet(byteOfRune)
		name = "bytes " + name
	}
	b.list = append(b.list, splitPart{name, st})
	return nil
}

// Family returns the known family with these parts, or a new one that applies them in sequence.
func (b *Builder) Family() *Family {
	before, list := b.list[:b.spacedParts], b.list[b.spacedParts:]
	f := &Family{Name: nameOf(list)}
	f.Splitter = newSplitter(stagesOf(list), ruleOf(f.Name))
	if len(before) > 0 {
		f.Name = nameOf(before) + PartSeparator + "space" + PartSeparator + f.Name
		f.SpacedPieces = stagesOf(before)
	}
	return f
}

// PartSeparator separates the names of the parts of a family.
const PartSeparator = "\n"

func nameOf(list []splitPart) string {
	names := make([]string, len(list))
	for i, part := range list {
		names[i] = part.name
	}
	return strings.Join(names, PartSeparator)
}

func stagesOf(list []splitPart) Stages {
	all := make(Stages, len(list))
	for i, part := range list {
		all[i] = part.stage
	}
	return all
}
