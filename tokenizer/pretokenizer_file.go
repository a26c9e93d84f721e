package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// readPreTokenizer accepts ByteLevel with or without its own pattern, and any splitters of text around it that only cut
// and drop nothing. Files without ByteLevel are of the other kind: their merges begin with characters.
func (d *definition) readPreTokenizer(p map[string]any) error {
	list, ok := flatten(p)
	if !ok {
		return refuse("pre_tokenizer", p)
	}
	if !slices.ContainsFunc(list, isByteLevel) {
		ok, err := d.readCharacterLevel(p)
		if !ok && err == nil {
			err = refuse("pre_tokenizer", p)
		}
		return err
	}
	if len(list) > maxStages {
		return refuse("pre_tokenizer of more than "+fmt.Sprint(maxStages)+" parts,", p)
	}
	b := &splitBuilder{}
	for _, part := range list {
		if err := b.add(part); err != nil {
			return err
		}
	}
	d.prefixSpace = b.prefixSpace
	d.family = b.family()
	return nil
}

func isByteLevel(p map[string]any) bool { return p["type"] == "ByteLevel" }

// splitBuilder collects the parts of a pre-tokenizer.
type splitBuilder struct {
	list        []splitPart
	byteLevel   bool // what follows sees bytes as characters of the alphabet
	prefixSpace bool
	pieces      int // the parts in front of ByteLevel: it puts a space before each of their pieces
}

// splitPart is a pattern that cuts, by a name that is the same whenever it cuts the same.
type splitPart struct {
	name  string
	stage stage
}

func (b *splitBuilder) add(p map[string]any) error {
	behavior, invert := p["behavior"], option(p, "invert", false)
	switch p["type"] {
	case "ByteLevel":
		return b.addByteLevel(p)
	case "Digits":
		if behavior = "Contiguous"; option(p, "individual_digits", false) {
			behavior = "Isolated"
		}
		return b.addDigits(p, behavior)
	case "Punctuation":
		if behavior == nil {
			behavior = "Isolated"
		}
		return b.cut(p, "punctuation", &expr{kind: one, set: withFlag(punctFlag)}, behavior, false)
	case "Split":
		pattern, _ := p["pattern"].(map[string]any)
		if regex, ok := pattern["Regex"].(string); ok && len(pattern) == 1 {
			return b.addRegex(p, regex, behavior, invert)
		}
		if text, ok := pattern["String"].(string); ok && len(pattern) == 1 && text != "" {
			e := &expr{kind: sequence}
			for _, r := range text {
				e.parts = append(e.parts, &expr{kind: one, set: newRuneSet(runeRange{r, r})})
			}
			return b.cut(p, "text "+text, e, behavior, invert)
		}
	}
	return refuse("pre_tokenizer", p)
}

func (b *splitBuilder) addByteLevel(p map[string]any) error {
	if b.byteLevel {
		return refuse("pre_tokenizer ByteLevel twice,", p)
	}
	if b.prefixSpace = option(p, "add_prefix_space", true); b.prefixSpace {
		b.pieces = len(b.list)
	}
	var err error
	if option(p, "use_regex", true) {
		err = b.addRegex(p, byteLevelPattern, "Isolated", false)
	}
	b.byteLevel = true
	return err
}

func (b *splitBuilder) addDigits(p map[string]any, behavior any) error {
	return b.cut(p, digitsPart, &expr{kind: one, set: withFlag(digitFlag)}, behavior, false)
}

func (b *splitBuilder) addRegex(p map[string]any, regex string, behavior any, invert bool) error {
	if regex == trailingPattern && behavior == "Isolated" && !b.byteLevel {
		b.list = append(b.list, splitPart{name: regexName(regex)})
		return nil
	}
	e, err := parsePattern(regex)
	if err != nil {
		return refuse("pre_tokenizer pattern ("+err.Error()+")", p)
	}
	return b.cut(p, regexName(regex), e, behavior, invert)
}

// regexName names a pattern by its text, with line ends as escapes: both spellings are common, and mean the same.
func regexName(regex string) string {
	return "regex " + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex)
}

// cut adds a part that cuts at the matches of a pattern.
func (b *splitBuilder) cut(p map[string]any, name string, e *expr, behavior any, invert bool) error {
	pattern, err := compilePattern(e)
	if err != nil {
		return refuse("pre_tokenizer pattern ("+err.Error()+")", p)
	}
	st := stage{pattern: pattern}
	switch {
	case behavior == "Isolated":
	case behavior == "Contiguous":
		st.merged = true
		name += " merged"
	case behavior == "Removed" && invert && pattern.total(): // nothing is between the matches
	default:
		return refuse("pre_tokenizer behavior", p)
	}
	if b.byteLevel {
		st.pattern = pattern.onAlphabet()
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

// option is an option of a part, which checkFields has seen to, or what the reference takes when it is absent.
func option(p map[string]any, name string, absent bool) bool {
	if v, ok := p[name].(bool); ok {
		return v
	}
	return absent
}
