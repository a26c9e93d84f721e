// Package fingerprint brings what shapes a tokenizer's ids into one form, whatever file it came from, and hashes it. Two tokenizers of
// one fingerprint give the same ids.
package fingerprint

import (
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// Identity is what a tokenizer.json says that shapes ids, in the one form that its fingerprint is the hash of.
// docs/tokenizers.md specifies it, and python/src/loaderd/fingerprint.py computes it too.
type Identity struct {
	normalizer   []any
	preTokenizer []any
	options      map[string]any // of the model
	vocab        []format.Entry // by id
	merges       []merge.Rule
}

// Identify takes a configuration that has been found to be good. Done says that none of its merges is never done.
func Identify(c *format.Config, done bool) *Identity {
	id := &Identity{
		normalizer:   components(c.Normalizer),
		preTokenizer: components(c.PreTokenizer),
		options:      map[string]any{"type": "BPE"},
	}
	for _, name := range []string{"unk_token", "fuse_unk", "byte_fallback", "ignore_merges"} {
		if v := c.Model[name]; v != nil && v != false && v != "" {
			id.options[name] = v
		}
	}
	id.vocab, _ = c.Model["vocab"].([]format.Entry)
	id.merges, _ = c.Model["merges"].([]merge.Rule)
	id.vocab = slices.SortedFunc(slices.Values(id.vocab), func(a, b format.Entry) int { return int(a.ID) - int(b.ID) })
	id.reduce(done)
	return id
}

// reduce leaves out the merges that are never done and the entries that nothing reaches.
func (id *Identity) reduce(done bool) {
	unknown, _ := id.options["unk_token"].(string)
	fallback := id.options["byte_fallback"] == true
	stands := func(token string) bool { // for a character without a token
		return unknown != "" && token == unknown || fallback && format.ByteToken.MatchString(token)
	}
	for _, m := range id.merges {
		if m.Left == "" || m.Right == "" || stands(m.Left) || stands(m.Right) {
			id.merges = merge.LastOfEqual(id.merges)
			return
		}
	}
	if !done {
		id.merges = merge.Done(id.merges)
	}
	made := make(map[string]bool, len(id.merges))
	for _, m := range id.merges {
		made[m.Left+m.Right] = true
	}
	reached := func(v format.Entry) bool { return made[v.Token] || utf8.RuneCountInString(v.Token) == 1 }
	if id.options["ignore_merges"] == true && slices.ContainsFunc(id.vocab, func(v format.Entry) bool { return !reached(v) }) {
		return // words that are entries are reached too
	}
	delete(id.options, "ignore_merges")
	id.vocab = slices.DeleteFunc(id.vocab, func(v format.Entry) bool { return !reached(v) && !stands(v.Token) })
}

// defaults are the fields of a component that shape ids, with what the reference takes for those that are absent; nil: they
// must be there.
var defaults = map[string]map[string]any{
	"ByteLevel":   {"add_prefix_space": true, "use_regex": true},
	"Metaspace":   {"replacement": nil, "prepend_scheme": "always", "split": true},
	"Split":       {"pattern": nil, "behavior": nil, "invert": false},
	"Digits":      {"individual_digits": false},
	"Punctuation": {"behavior": "Isolated"},
	"Prepend":     {"prepend": nil},
	"Replace":     {"pattern": nil, "content": nil},
}

// components lists a normalizer or pre-tokenizer without sequences in it, each part with what is not as by default.
func components(c map[string]any) []any {
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
			list = append(list, components(part)...)
		}
		return list
	}
	known, ok := defaults[kind]
	out := map[string]any{"type": kind}
	for field, value := range c {
		byDefault, shapes := known[field]
		if field != "type" && value != nil && (!ok || shapes && value != byDefault) {
			out[field] = value
		}
	}
	if kind == "Metaspace" && c["add_prefix_space"] == false && c["prepend_scheme"] == nil { // as it was written before
		out["prepend_scheme"] = "never"
	}
	if kind == "ByteLevel" && len(out) == 2 && out["add_prefix_space"] == false {
		return SplitBytes(pretokenize.ByteLevelPattern)
	}
	return []any{out}
}

// SplitBytes are the parts of a pre-tokenizer that cuts words by a pattern and writes bytes as characters.
func SplitBytes(pattern string) []any {
	return []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated"},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
	}
}
