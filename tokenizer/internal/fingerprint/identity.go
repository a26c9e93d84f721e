package fingerprint

import (
	"maps"
	"slices"
	"unicode/utf8"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Identity is the part of a tokenizer.json that determines ids, in the canonical form that is hashed.
// The package comment specifies it, and python/src/loaderd/fingerprint.py computes it too.
type Identity struct {
	normalizer   []any
	preTokenizer []any
	options      map[string]any // of the model
	entries      []format.Entry
	steps        []merge.Step
	allReachable bool           // each merge is done for some text
	pieces       []format.Piece // of a Unigram model
}

// Identify returns the identity of a valid configuration, given the places of its merges in its vocabulary. done
// reports that each merge is done for some text.
func Identify(c *hf.Config, steps []merge.Step, done bool) *Identity {
	id := &Identity{
		normalizer:   canonicalComponents(c.Normalizer),
		preTokenizer: canonicalComponents(c.PreTokenizer),
		options:      map[string]any{"type": "BPE"},
		steps:        steps,
		allReachable: done,
	}
	if c.Model["merges"] == nil {
		id.identifyOther(c.Model)
		return id
	}
	for _, name := range []string{"unk_token", "fuse_unk", "byte_fallback", "ignore_merges"} {
		if v := c.Model[name]; v != nil && v != false && v != "" {
			id.options[name] = v
		}
	}
	id.entries, _ = c.Model["vocab"].([]format.Entry)
	return id
}

// identifyOther sets what determines ids in a model without merges.
func (id *Identity) identifyOther(model map[string]any) {
	id.options = maps.Clone(model)
	maps.DeleteFunc(id.options, func(name string, v any) bool { return name == "vocab" || v == nil })
	if id.options["type"] == nil {
		id.options["type"] = "WordPiece"
	}
	id.entries, _ = model["vocab"].([]format.Entry)
	if pieces, ok := model["vocab"].([]format.Piece); ok {
		id.options["type"], id.pieces = "Unigram", pieces
	}
}

// hasMerges reports whether the model has merges, which are then part of the identity.
func (id *Identity) hasMerges() bool { return id.options["type"] == "BPE" }

// reduce removes the merges that are never done and the entries that nothing reaches. It returns the options, and
// for each merge and entry whether it is kept.
func (id *Identity) reduce() (options map[string]any, merges, vocab []bool) {
	if !id.hasMerges() {
		return id.options, nil, allTrue(len(id.entries))
	}
	vocab = make([]bool, len(id.entries)) // initially those that represent a character without a token
	unknown, _ := id.options["unk_token"].(string)
	fallback := id.options["byte_fallback"] == true
	for i, v := range id.entries {
		vocab[i] = unknown != "" && v.Token == unknown || fallback && format.ByteToken.MatchString(v.Token)
	}
	if slices.ContainsFunc(id.steps, func(x merge.Step) bool { return vocab[x.Left] || vocab[x.Right] }) {
		return id.options, merge.LastOfEqual(id.steps), allTrue(len(id.entries))
	}
	if id.allReachable {
		merges = allTrue(len(id.steps))
	} else {
		merges = merge.ReachableMerges(id.steps, len(id.entries), func(place uint32) string {
			return id.entries[place].Token
		})
	}
	reached := make([]bool, len(id.entries))
	for i, x := range id.steps {
		reached[x.Made] = reached[x.Made] || merges[i]
	}
	for i, v := range id.entries {
		_, size := utf8.DecodeRuneInString(v.Token)
		reached[i] = reached[i] || size == len(v.Token)
	}
	if id.options["ignore_merges"] == true && slices.Contains(reached, false) {
		return id.options, merges, allTrue(len(id.entries)) // words that are entries are reached too
	}
	for i := range vocab {
		vocab[i] = vocab[i] || reached[i]
	}
	options = maps.Clone(id.options)
	delete(options, "ignore_merges")
	return options, merges, vocab
}

// allTrue returns n times true.
func allTrue(n int) []bool { return slices.Repeat([]bool{true}, n) }

// componentDefaults are the fields of a component that determine ids, with the reference's defaults for missing ones;
// nil: they are required.
var componentDefaults = map[string]map[string]any{
	"ByteLevel":   {"add_prefix_space": true, "use_regex": true},
	"Metaspace":   {"replacement": nil, "prepend_scheme": "always", "split": true},
	"Split":       {"pattern": nil, "behavior": nil, "invert": false},
	"Digits":      {"individual_digits": false},
	"Punctuation": {"behavior": "Isolated"},
	"Prepend":     {"prepend": nil},
	"Replace":     {"pattern": nil, "content": nil},
}

// canonicalComponents lists the parts of a normalizer or pre-tokenizer without nested sequences, each with its
// non-default fields.
func canonicalComponents(c map[string]any) []any {
	if c == nil {
		return []any{}
	}
	kind, _ := c["type"].(string)
	if kind == "Sequence" {
		list := []any{}
		parts, ok := c["normalizers"].([]any)
		if !ok {
			parts, _ = c["pretokenizers"].([]any)
		}
		for _, p := range parts {
			part, _ := p.(map[string]any)
			list = append(list, canonicalComponents(part)...)
		}
		return list
	}
	known, ok := componentDefaults[kind]
	out := map[string]any{"type": kind}
	for field, value := range c {
		byDefault, shapes := known[field]
		if field != "type" && value != nil && (!ok || shapes && value != byDefault) {
			out[field] = value
		}
	}
	if kind == "Metaspace" && c["add_prefix_space"] == false && c["prepend_scheme"] == nil { // the former spelling
		out["prepend_scheme"] = "never"
	}
	if kind == "ByteLevel" && len(out) == 2 && out["add_prefix_space"] == false {
		return SplitThenByteLevel(pretokenize.ByteLevelPattern)
	}
	return []any{out}
}

// SplitThenByteLevel returns the parts of a pre-tokenizer that splits words by a pattern and writes bytes as
// characters.
func SplitThenByteLevel(pattern string) []any {
	return []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated"},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
	}
}
