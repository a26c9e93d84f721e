package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	hf "github.com/sugarme/tokenizer"
)

// advice ends every refusal.
const advice = "send documents already tokenized (content type application/vnd.loaderd.tokens) instead"

// refuse is the error for what has not been compared with the reference.
func refuse(component string, value any) error {
	return fmt.Errorf("%s %s is not supported: %s", component, describe(value), advice)
}

// describe shows a value from the file, cut where it is long.
func describe(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if s := []rune(string(b)); len(s) > 300 {
		return string(s[:300]) + "..."
	}
	return string(b)
}

func fileDefinition(path string) (*definition, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("neither a built-in name %v nor a readable tokenizer.json: %w", Builtin(), err)
	}
	return jsonDefinition(data)
}

// jsonDefinition reads a tokenizer.json. Its layout is that of sugarme/tokenizer's Config; that library's BPE itself
// drops merges whose parts it does not know and panics on some files, so vocabulary and merges are taken from the Config.
func jsonDefinition(data []byte) (d *definition, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, fmt.Errorf("read tokenizer.json: %v", p)
		}
	}()
	var c *hf.Config
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read tokenizer.json: %w", err)
	}
	if c == nil {
		return nil, fmt.Errorf("read tokenizer.json: the file is null")
	}
	if c.Truncation != nil {
		return nil, refuse("truncation", c.Truncation)
	}
	if c.Padding != nil {
		return nil, refuse("padding", c.Padding)
	}
	if t, ok := c.Model["type"]; ok && t != "BPE" { // first: whoever has another model need not read on
		return nil, refuse("model type", t)
	}
	d = &definition{}
	if err := d.readNormalizer(c.Normalizer); err != nil {
		return nil, err
	}
	if err := d.readPreTokenizer(c.PreTokenizer); err != nil {
		return nil, err
	}
	if err := d.readModel(c.Model); err != nil {
		return nil, err
	}
	return d, d.readAdded(c.AddedTokens)
}

func (d *definition) readNormalizer(n map[string]any) error {
	if n == nil {
		return nil
	}
	if d.nfc = n["type"] == "NFC"; !d.nfc {
		return refuse("normalizer", n)
	}
	return nil
}

// readPreTokenizer accepts ByteLevel with its own pattern, and a Split by a known pattern followed by ByteLevel.
func (d *definition) readPreTokenizer(p map[string]any) error {
	if p == nil {
		return refuse("pre_tokenizer", p)
	}
	switch p["type"] {
	case "ByteLevel":
		d.prefixSpace = boolOf(p, "add_prefix_space", true)
		if !boolOf(p, "use_regex", true) {
			return refuse("pre_tokenizer", p)
		}
		d.family = familyNamed("gpt2")
		return nil
	case "Sequence":
		list, _ := p["pretokenizers"].([]any)
		if len(list) != 2 {
			return refuse("pre_tokenizer", p)
		}
		split, _ := list[0].(map[string]any)
		bytes, _ := list[1].(map[string]any)
		if bytes["type"] != "ByteLevel" || boolOf(bytes, "add_prefix_space", true) || boolOf(bytes, "use_regex", true) {
			return refuse("pre_tokenizer after the first", list[1])
		}
		return d.readSplit(split)
	}
	return refuse("pre_tokenizer", p)
}

func (d *definition) readSplit(p map[string]any) error {
	pattern, _ := p["pattern"].(map[string]any)
	regex, _ := pattern["Regex"].(string)
	name, ok := patterns[regex]
	if !ok || p["type"] != "Split" || len(pattern) != 1 {
		return refuse("pre_tokenizer", p)
	}
	if p["behavior"] != "Isolated" || boolOf(p, "invert", true) {
		return refuse("pre_tokenizer behavior", p)
	}
	d.family = familyNamed(name)
	return nil
}

// boolOf is a field of the file, or what the reference takes when it is absent. Other values count as the one that is
// refused more often.
func boolOf(m map[string]any, field string, absent bool) bool {
	if b, ok := m[field].(bool); ok {
		return b
	}
	return absent
}

// unset are the model's options that must be absent, null, or the given neutral value.
var unset = map[string]any{
	"dropout":                   nil,
	"unk_token":                 nil,
	"continuing_subword_prefix": "",
	"end_of_word_suffix":        "",
	"fuse_unk":                  false,
	"byte_fallback":             false,
}

func (d *definition) readModel(m map[string]any) error {
	if m == nil {
		return refuse("model", nil)
	}
	for option, neutral := range unset {
		if v := m[option]; v != nil && v != neutral {
			return refuse("model "+option, v)
		}
	}
	switch v := m["ignore_merges"].(type) {
	case nil:
	case bool:
		d.wholeWords = v
	default:
		return refuse("model ignore_merges", v)
	}
	vocab, ok := m["vocab"].(map[string]any)
	if !ok {
		return fmt.Errorf("model vocab: want an object of token: id, have %s", describe(m["vocab"]))
	}
	merges, ok := m["merges"].([]any)
	if !ok {
		return fmt.Errorf("model merges: want a list, have %s", describe(m["merges"]))
	}
	if err := d.readVocab(vocab); err != nil {
		return err
	}
	return d.readMerges(merges)
}

// readVocab sorts the vocabulary into byte strings and others.
func (d *definition) readVocab(vocab map[string]any) error {
	d.tokens, d.names = make(map[string]int32, len(vocab)), map[string]int32{}
	owner := make(map[int32]string, len(vocab))
	for token, v := range vocab {
		id, ok := v.(float64)
		if !ok || id < 0 || id > maxID || id != math.Trunc(id) {
			return fmt.Errorf("model vocab: token %q: id %s is not an integer in 0..%d", token, describe(v), maxID)
		}
		if other, ok := owner[int32(id)]; ok {
			return fmt.Errorf("model vocab: tokens %q and %q both have id %d", min(token, other), max(token, other), int32(id))
		}
		owner[int32(id)] = token
		if token == "" {
			return fmt.Errorf("model vocab: id %d is the empty token", int32(id))
		}
		if text, ok := bytesOf(token); ok {
			d.tokens[text] = int32(id)
		} else {
			d.names[token] = int32(id)
		}
	}
	return nil
}

// readMerges reads the merges of either spelling, "a b" or ["a", "b"].
func (d *definition) readMerges(list []any) error {
	m := newMerges(len(list))
	d.merges = m
	symbols := make(map[string]uint32, len(list)+256)
	for b := range 256 {
		text := m.text[b]
		if id, ok := d.tokens[text]; ok {
			m.ids[b] = id
			symbols[text] = uint32(b)
		}
	}
	lookup := func(text string) (symbol uint32, fresh, ok bool) {
		if symbol, ok := symbols[text]; ok {
			return symbol, false, true
		}
		id, ok := d.tokens[text]
		if !ok {
			return 0, false, false
		}
		symbols[text] = m.symbol(text, id)
		return symbols[text], true, true
	}
	for i, x := range list {
		left, right, ok := mergeParts(x)
		if !ok {
			return fmt.Errorf(`model merges: merge %d: want "left right" or ["left", "right"] of byte-level tokens, have %s`, i, describe(x))
		}
		l, freshL, okL := lookup(left)
		r, freshR, okR := lookup(right)
		made, fresh, okM := lookup(left + right)
		if !okL || !okR || !okM {
			return fmt.Errorf("model merges: merge %d %s: its parts and its result must be in the vocabulary", i, describe(x))
		}
		if err := m.join(l, r, made, fresh && !freshL && !freshR); err != nil {
			return fmt.Errorf("model merges: %w", err)
		}
	}
	return m.checkBytes()
}

func mergeParts(x any) (left, right string, ok bool) {
	switch x := x.(type) {
	case string:
		left, right, _ = strings.Cut(x, " ")
	case []any:
		if len(x) != 2 {
			return "", "", false
		}
		left, _ = x[0].(string)
		right, _ = x[1].(string)
	}
	left, okL := bytesOf(left)
	right, okR := bytesOf(right)
	return left, right, okL && okR
}

// readAdded gives added tokens the ids that the reference gives them: that of the vocabulary, else the next free one,
// whatever the file says.
func (d *definition) readAdded(list []hf.TokenConfig) error {
	next := int32(len(d.tokens) + len(d.names))
	taken := make(map[int32]bool, next)
	for _, entries := range []map[string]int32{d.tokens, d.names} {
		for _, id := range entries {
			taken[id] = true
		}
	}
	seen := map[string]bool{}
	for i, t := range list {
		where := fmt.Sprintf("added_tokens[%d] %q", i, t.Content)
		switch {
		case t.Content == "":
			continue // the reference ignores it
		case seen[t.Content]:
			return fmt.Errorf("%s: listed twice", where)
		case t.SingleWord:
			return refuse(where+" single_word", true)
		case t.Lstrip:
			return refuse(where+" lstrip", true)
		case t.Rstrip:
			return refuse(where+" rstrip", true)
		}
		seen[t.Content] = true
		id, ok := d.vocabulary(t.Content)
		if !ok {
			if id = next; taken[id] || id > maxID {
				return fmt.Errorf("%s: the reference gives it id %d, which the vocabulary uses or which is beyond %d", where, id, maxID)
			}
		}
		next = max(next, id+1)
		d.added = append(d.added, addedToken{t.Content, id, t.Special, t.Normalized})
	}
	return nil
}

// vocabulary is the id of an entry as it is spelled in the file.
func (d *definition) vocabulary(entry string) (int32, bool) {
	if id, ok := d.names[entry]; ok {
		return id, true
	}
	if text, ok := bytesOf(entry); ok {
		id, ok := d.tokens[text]
		return id, ok
	}
	return 0, false
}

func sortAdded(list []addedToken) {
	slices.SortFunc(list, func(a, b addedToken) int { return int(a.id) - int(b.id) })
}
