package fingerprint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"testing"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

type object = map[string]any

// small returns a tokenizer of a, b and ab, in which bytes are written as characters.
func small() *hf.Config {
	return &hf.Config{
		PreTokenizer: object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		Model: object{"type": "BPE", "vocab": []format.Entry{{Token: "a", ID: 0}, {Token: "b", ID: 1}, {Token: "ab", ID: 2}},
			"merges": []merge.Rule{{Left: "a", Right: "b"}}},
	}
}

func sum(c *hf.Config, s fingerprint.Settings) string {
	vocab := c.Model["vocab"].([]format.Entry)
	place := func(token string) uint32 {
		return uint32(slices.IndexFunc(vocab, func(v format.Entry) bool { return v.Token == token }))
	}
	var steps []merge.Step
	for _, m := range c.Model["merges"].([]merge.Rule) {
		steps = append(steps, merge.Step{Left: place(m.Left), Right: place(m.Right), Made: place(m.Left + m.Right)})
	}
	return fingerprint.Identify(c, steps, false).Fingerprint(s)
}

// The fingerprint is the hash of the text that the package comment describes.
func TestFingerprint_IsHashOfDocumentedText(t *testing.T) {
	c := small()
	c.Normalizer = object{"type": "Prepend", "prepend": "\"é😀\n"}
	h := sha256.Sum256(
		[]byte(`{"added_tokens":[[3,"<x>",true,false,false,false,false],[4,"<y>",false,false,false,false,true]],` +
			`"merges":[["a","b"]],"model":{"type":"BPE"},"normalizer":[{"prepend":"\"\u00e9\ud83d\ude00\n","type":"Prepend"}],` +
			`"pre_tokenizer":[{"add_prefix_space":false,"type":"ByteLevel","use_regex":false}],"special_as_text":true,` +
			`"special_tokens":[[4],[]],"version":"loaderd tokenizer 3","vocab":[[0,"a"],[1,"b"],[2,"ab"]]}`))
	have := sum(c, fingerprint.Settings{SpecialAsText: true, Before: []int32{4},
		Added: []added.Token{{ID: 4, Content: "<y>", Special: true}, {ID: 3, Content: "<x>", SingleWord: true}}})
	if want := "sha256:" + hex.EncodeToString(h[:]); have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// A different spelling with the same ids has the same fingerprint; different ids have a different one.
func TestFingerprint_DiffersWithIDs(t *testing.T) {
	model := func(c *hf.Config, field string, value any) {
		c.Model = maps.Clone(c.Model)
		c.Model[field] = value
	}
	vocab := small().Model["vocab"].([]format.Entry)
	merges := small().Model["merges"].([]merge.Rule)
	want := sum(small(), fingerprint.Settings{})
	for name, x := range map[string]struct {
		same   bool
		change func(c *hf.Config)
	}{
		"the vocabulary in another order": {true, func(c *hf.Config) {
			model(c, "vocab", []format.Entry{vocab[2], vocab[0], vocab[1]})
		}},
		"an entry that nothing reaches": {true, func(c *hf.Config) {
			model(c, "vocab", append(vocab[:3:3], format.Entry{Token: "ba", ID: 7}))
		}},
		"a merge twice": {true, func(c *hf.Config) { model(c, "merges", append(merges[:1:1], merges[0])) }},
		"options that are off": {true, func(c *hf.Config) {
			model(c, "fuse_unk", false)
			model(c, "unk_token", nil)
		}},
		"a sequence of one": {true, func(c *hf.Config) {
			c.PreTokenizer = object{"type": "Sequence",
				"pretokenizers": []any{object{"type": "Sequence", "pretokenizers": []any{c.PreTokenizer}}}}
		}},
		"a field that does not shape ids": {true, func(c *hf.Config) { c.PreTokenizer["trim_offsets"] = true }},
		"other ids": {false, func(c *hf.Config) {
			model(c, "vocab", []format.Entry{{Token: "a", ID: 1}, {Token: "b", ID: 0}, {Token: "ab", ID: 2}})
		}},
		"a character more": {false, func(c *hf.Config) {
			model(c, "vocab", append(vocab[:3:3], format.Entry{Token: "c", ID: 7}))
		}},
		"no merge":              {false, func(c *hf.Config) { model(c, "merges", []merge.Rule(nil)) }},
		"an option":             {false, func(c *hf.Config) { model(c, "byte_fallback", true) }},
		"another pre-tokenizer": {false, func(c *hf.Config) { c.PreTokenizer["use_regex"] = true }},
		"a normalizer":          {false, func(c *hf.Config) { c.Normalizer = object{"type": "NFC"} }},
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			x.change(c)
			if have := sum(c, fingerprint.Settings{}); (have == want) != x.same {
				t.Errorf("%s, that of the small tokenizer is %s", have, want)
			}
		})
	}
	for name, s := range map[string]fingerprint.Settings{
		"an added token":            {Added: []added.Token{{ID: 3, Content: "<x>"}}},
		"special tokens as text":    {SpecialAsText: true},
		"a token before every text": {Before: []int32{1}},
		"a token behind every text": {Behind: []int32{1}},
	} {
		if sum(small(), s) == want {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// The fingerprint excludes a merge that is never done, because others in the word are done before it, and what only
// that merge makes.
func TestFingerprint_ExcludesUnreachableMerges(t *testing.T) {
	with := func(more ...merge.Rule) string {
		c := small()
		for i, m := range append([]merge.Rule{{Left: "b", Right: "a"}}, more...) {
			c.Model["merges"] = append(c.Model["merges"].([]merge.Rule), m)
			c.Model["vocab"] = append(c.Model["vocab"].([]format.Entry), format.Entry{Token: m.Left + m.Right, ID: int32(3 + i)})
		}
		return sum(c, fingerprint.Settings{})
	}
	if with(merge.Rule{Left: "a", Right: "ba"}) != with() { // in "aba" the first two are merged earlier
		t.Error("a merge that is never done is part of it")
	}
	if with(merge.Rule{Left: "ab", Right: "a"}) == with() {
		t.Error("a merge that is done is not part of it")
	}
}

// A ByteLevel that splits by its own pattern is equivalent to the pattern followed by a ByteLevel that does not
// split.
func TestFingerprint_ByteLevelEqualsSplitAndByteLevel(t *testing.T) {
	one, two := small(), small()
	one.PreTokenizer = object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	two.PreTokenizer = object{"type": "Sequence",
		"pretokenizers": fingerprint.SplitThenByteLevel(pretokenize.ByteLevelPattern)}
	if sum(one, fingerprint.Settings{}) != sum(two, fingerprint.Settings{}) {
		t.Error("they have two fingerprints")
	}
}
