package pretokenize

import (
	"slices"
	"strings"
)

// Family is a way to split text into words.
type Family struct {
	Name         string // equal names imply equal splits
	Splitter     Splitter
	SpacedPieces Stages // split text first, if a space is put before each of its pieces
}

// PublishedFamily is a way to split text that many files use. Those with the same label split equally.
type PublishedFamily struct {
	Label string
	Parts []string // the patterns in sequence, or DigitsPart
	rule  *blockRule
}

// DigitsPart represents the Digits pre-tokenizer, with each digit separate.
const DigitsPart = "digits"

// ByteLevelPattern is the pattern of a ByteLevel pre-tokenizer.
const ByteLevelPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

const (
	contractionPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	blanksPattern      = `\s*[\r\n]+|\s+(?!\S)|\s+`
	upperPattern       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowerPattern       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	leadPattern        = `[^\r\n\p{L}\p{N}]?`
	marksPattern       = ` ?[^\s\p{L}\p{N}]+`
	upperNotHan        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	lowerNotHan        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	deepSeekWords      = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + blanksPattern
)

// Families are the families that have a rule for ASCII; any other uses only its automatons.
var Families = []PublishedFamily{
	{"gpt2", []string{ByteLevelPattern}, &blockRule{joinsSpaces: true, contractions: lowerCaseContractions,
		letters: plainLetters}},
	{"digits gpt2", []string{DigitsPart, ByteLevelPattern},
		&blockRule{joinsSpaces: true, contractions: lowerCaseContractions, digitsFirst: true,
			letters: plainLetters}},
	{
		"cl100k",
		[]string{contractionPattern + `|` + leadPattern + `\p{L}+|\p{N}{1,3}|` + marksPattern + `[\r\n]*|` + blanksPattern},
		&blockRule{contractions: anyCaseContractions, digits: 3, joinsNewlines: true, letters: plainLetters},
	},
	{
		"qwen",
		[]string{contractionPattern + `|` + leadPattern + `\p{L}+|\p{N}|` + marksPattern + `[\r\n]*|` + blanksPattern},
		&blockRule{contractions: anyCaseContractions, digits: 1, joinsNewlines: true, letters: plainLetters},
	},
	{
		"qwen",
		[]string{`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`},
		&blockRule{contractions: anyCaseContractions, digits: 1, joinsNewlines: true, letters: plainLetters},
	},
	{
		"qwen with marks",
		[]string{contractionPattern + `|` + leadPattern + `[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` +
			blanksPattern},
		&blockRule{contractions: anyCaseContractions, digits: 1, joinsNewlines: true, letters: lettersAndMarks},
	},
	{
		"seed",
		[]string{contractionPattern + `|` + leadPattern + `\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|` + blanksPattern},
		&blockRule{contractions: anyCaseContractions, digits: 1, letters: plainLetters},
	},
	{
		"digits cl100k",
		[]string{
			`\p{N}{1,3}`,
			contractionPattern + `|` + leadPattern + `\p{L}+|\p{N}+|` + marksPattern + `[\r\n]*|` + blanksPattern,
		},
		&blockRule{contractions: anyCaseContractions, digits: 3, joinsNewlines: true, digitsFirst: true,
			letters: plainLetters},
	},
	{
		"o200k",
		[]string{
			leadPattern + upperPattern + `*` + lowerPattern + `+` + contractionPattern + `?|` +
				leadPattern + upperPattern + `+` + lowerPattern + `*` + contractionPattern + `?|` +
				`\p{N}{1,3}|` + marksPattern + `[\r\n/]*|` + blanksPattern,
		},
		&blockRule{contractions: suffixContractions, splitsCases: true, digits: 3, joinsSlashes: true, letters: casedLetters},
	},
	{
		"tekken",
		[]string{
			leadPattern + upperPattern + `*` + lowerPattern + `+|` + leadPattern + upperPattern + `+` + lowerPattern + `*|` +
				`\p{N}|` + marksPattern + `[\r\n/]*|` + blanksPattern,
		},
		&blockRule{splitsCases: true, digits: 1, joinsSlashes: true, letters: casedLetters},
	},
	{
		"kimi",
		[]string{
			`[\p{Han}]+|` + leadPattern + upperNotHan + `*` + lowerNotHan + `+` + contractionPattern + `?|` +
				leadPattern + upperNotHan + `+` + lowerNotHan + `*` + contractionPattern + `?|` +
				`\p{N}{1,3}|` + marksPattern + `[\r\n]*|` + blanksPattern,
		},
		&blockRule{contractions: suffixContractions, splitsCases: true, digits: 3, joinsNewlines: true, letters: casedNotHan},
	},
	{
		"deepseek",
		[]string{`\p{N}{1,3}`, "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", deepSeekWords},
		&blockRule{digits: 3, joinsNewlines: true, digitsFirst: true},
	},
}

// ruleOf returns the rule of the family with these parts, or nil.
func ruleOf(parts string) *blockRule {
	for _, f := range Families {
		names := make([]string, len(f.Parts))
		for i, part := range f.Parts {
			if names[i] = part; part != DigitsPart {
				names[i] = regexName(part)
			}
		}
		if strings.Join(names, PartSeparator) == parts {
			return f.rule
		}
	}
	return nil
}

// patternAliases are other names of families.
var patternAliases = map[string]string{
	"r50k_base": "gpt2", "p50k_base": "gpt2", "cl100k_base": "cl100k", "llama3": "cl100k", "o200k_base": "o200k",
}

// PatternOf returns the pattern of a family of one part by its name, or "".
func PatternOf(name string) string {
	if alias, ok := patternAliases[name]; ok {
		name = alias
	}
	for _, f := range Families {
		if f.Label == name && len(f.Parts) == 1 {
			return f.Parts[0]
		}
	}
	return ""
}

// PatternNames returns most of the names that PatternOf accepts.
func PatternNames() []string {
	names := []string{"llama3"}
	for _, f := range Families {
		if len(f.Parts) == 1 && !slices.Contains(names, f.Label) {
			names = append(names, f.Label)
		}
	}
	return names
}
