package definition_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

// Files that the reference refuses because components lack required fields are refused: no reference ids exist for
// them.
func TestFromJSON_RequiresFieldsOfReference(t *testing.T) {
	level := byteLevel(false, false)
	without := func(component object, field string) object {
		component = maps.Clone(component)
		delete(component, field)
		return component
	}
	with := func(component object, field string, value any) object {
		component = maps.Clone(component)
		component[field] = value
		return component
	}
	split := splitOn(object{"String": "x"}, "Isolated", false)
	digits := object{"type": "Digits", "individual_digits": true}
	for name, c := range map[string]struct {
		where     string
		component object
		says      string // error text; empty: the file is accepted
	}{
		"ByteLevel":                          {"pre_tokenizer", level, ""},
		"ByteLevel without use_regex":        {"pre_tokenizer", without(level, "use_regex"), ""},
		"ByteLevel without add_prefix_space": {"pre_tokenizer", without(level, "add_prefix_space"), "want add_prefix_space"},
		"ByteLevel without trim_offsets":     {"pre_tokenizer", without(level, "trim_offsets"), "want trim_offsets"},
		"trim_offsets is a number":           {"pre_tokenizer", with(level, "trim_offsets", 1), "want trim_offsets"},
		"use_regex is null":                  {"pre_tokenizer", with(level, "use_regex", nil), "want use_regex"},
		"use_regex is a text":                {"pre_tokenizer", with(level, "use_regex", "no"), "want use_regex"},
		"Digits":                             {"pre_tokenizer", inSequence(digits, level), ""},
		"Digits without individual_digits": {"pre_tokenizer", inSequence(without(digits, "individual_digits"), level),
			"want individual_digits"},
		"individual_digits is a number": {"pre_tokenizer", inSequence(with(digits, "individual_digits", 1), level),
			"want individual_digits"},
		"Split": {"pre_tokenizer", inSequence(split, level), ""},
		"Split without invert": {"pre_tokenizer", inSequence(inSequence(without(split, "invert")), level),
			"want invert"},
		"Punctuation": {"pre_tokenizer", inSequence(object{"type": "Punctuation"}, level), ""},
		"Punctuation with behavior null": {"pre_tokenizer", inSequence(object{"type": "Punctuation", "behavior": nil},
			level), "behavior"},
		"a post_processor's ByteLevel": {"post_processor",
			object{"type": "Sequence", "processors": []any{object{"type": "ByteLevel"}}},
			"want add_prefix_space"},
		"a decoder's ByteLevel": {"decoder", without(level, "trim_offsets"), "want trim_offsets"},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			f[c.where] = c.component
			_, err := definition.FromJSON(bytes.NewReader(tokentest.JSON(t, f)))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.where) ||
				!strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}
