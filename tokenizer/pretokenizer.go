package tokenizer

import (
	"errors"
	"strings"

	"loaderd/tokenizer/internal/pattern"
	"loaderd/tokenizer/internal/ucd"
)

// splitBuilder collects the parts of a pre-tokenizer, in order. A behavior is what the reference calls so: what becomes of
// the matches of a pattern, and of what is between them.
type splitBuilder struct {
	list      []splitPart
	byteLevel bool // what follows sees bytes as characters of the alphabet
	pieces    int  // the parts in front of ByteLevel: it puts a space before each of their pieces
}

// splitPart is a pattern that cuts, by a name that is the same whenever it cuts the same.
type splitPart struct {
	name  string
	stage stage
}

// errBehavior is the error for a behavior that drops characters, or joins matches with what is beside them.
var errBehavior = errors.New("a behavior that does not only cut")

// addByteLevel adds the ByteLevel pre-tokenizer, with its own pattern or without.
func (b *splitBuilder) addByteLevel(prefixSpace, useRegex bool) error {
	if prefixSpace {
		b.pieces = len(b.list)
	}
	var err error
	if useRegex {
		err = b.addRegex(byteLevelPattern, "Isolated", false)
	}
	b.byteLevel = true
	return err
}

// addDigits cuts at the digits.
func (b *splitBuilder) addDigits(behavior string) error {
	return b.cut(digitsPart, pattern.OneOf(ucd.Digits()), behavior, false)
}

// addPunctuation cuts at punctuation.
func (b *splitBuilder) addPunctuation(behavior string) error {
	return b.cut("punctuation", pattern.OneOf(ucd.Punctuation()), behavior, false)
}

// addText cuts at the places where a text is.
func (b *splitBuilder) addText(text, behavior string, invert bool) error {
	return b.cut("text "+text, pattern.Literally(text), behavior, invert)
}

// addRegex cuts at the matches of a regular expression. The error is errBehavior, or says what is not known in the expression.
func (b *splitBuilder) addRegex(regex, behavior string, invert bool) error {
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

// regexName names a pattern by its text, with line ends as escapes: both spellings are common, and mean the same.
func regexName(regex string) string {
	return "regex " + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex)
}

// cut adds a part that cuts at the matches of a pattern.
func (b *splitBuilder) cut(name string, e *pattern.Expr, behavior string, invert bool) error {
	p, err := pattern.Compile(e)
	if err != nil {
		return err
	}
	st := stage{pattern: p}
	switch {
	case behavior == "Isolated":
	case behavior == "Contiguous":
		st.merged = true
		name += " merged"
	case behavior == "Removed" && invert && p.Total(): // nothing is between the matches
	default:
		return errBehavior
	}
	if b.byteLevel {
		st.pattern = p.OnAlphabet(byteOfRune)
		name = "bytes " + name
	}
	b.list = append(b.list, splitPart{name, st})
	return nil
}

// family is the known one of these parts, or one that goes through them.
func (b *splitBuilder) family() *family {
	before, list := b.list[:b.pieces], b.list[b.pieces:]
	f := &family{name: nameOf(list)}
	f.splitter = newSplitter(stagesOf(list), ruleOf(f.name))
	if len(before) > 0 {
		f.name = nameOf(before) + betweenParts + "space" + betweenParts + f.name
		f.pieces = stagesOf(before)
	}
	return f
}

// betweenParts is between the names of the parts of a family.
const betweenParts = "\n"

func nameOf(list []splitPart) string {
	names := make([]string, len(list))
	for i, part := range list {
		names[i] = part.name
	}
	return strings.Join(names, betweenParts)
}

func stagesOf(list []splitPart) stages {
	all := make(stages, len(list))
	for i, part := range list {
		all[i] = part.stage
	}
	return all
}
