package definition

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/vocab"
)

// builtin is a tokenizer with a compiled-in vocabulary.
type builtin struct {
	name        string
	ranks       string // the built-in vocabulary
	family      string
	special     map[string]int32
	fingerprint string // its fingerprint without options, because computing it takes half as long as loading
}

// Ranks, patterns and special tokens are those of tiktoken's openai_public. Its pattern for cl100k_base tries \s++$
// before \s*[\r\n]. No token of cl100k_base continues after a newline into other whitespace, so the ids are the same.
var builtins = []builtin{
	{"gpt2", "r50k_base", "gpt2", map[string]int32{"<|endoftext|>": 50256},
		"sha256:283db7a1db883b5a6ad55f536d195e59be855af8ca5795888601f82446d91f1d"},
	{"r50k_base", "r50k_base", "gpt2", map[string]int32{"<|endoftext|>": 50256},
		"sha256:283db7a1db883b5a6ad55f536d195e59be855af8ca5795888601f82446d91f1d"},
	{"cl100k_base", "cl100k_base", "cl100k", map[string]int32{
		"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
		"<|endofprompt|>": 100276,
	}, "sha256:fb58716e8e0c42a39ab5d0212644cec9fbafb655944c9b361c2650cec3a5e04f"},
	{"o200k_base", "o200k_base", "o200k", map[string]int32{"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
		"sha256:c6aa47f5eb9a212a9b256221d19f9fe14086b1517d00836aa3188c238b5f1a78"},
}

// Builtin returns the names of the tokenizers that need no file.
func Builtin() []string {
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.name
	}
	return names
}

func builtinDefinition(name string) (*Definition, error) {
	for _, b := range builtins {
		if b.name != name {
			continue
		}
		v, err := vocab.Read(b.ranks)
		if err != nil {
			return nil, err
		}
		texts := v.Texts(pretokenize.SpellBytes)
		vocab := make([]format.Entry, len(texts))
		for rank, text := range texts {
			vocab[rank] = format.Entry{Token: text, ID: int32(rank)}
		}
		steps := make([]merge.Step, len(v.Merges))
		for i, parts := range v.Merges {
			steps[i] = merge.Step{Left: parts[0], Right: parts[1], Made: uint32(256 + i)}
		}
		d, err := mergesDefinition(vocab, steps, pretokenize.PatternOf(b.family), b.special)
		if err != nil {
			return nil, err
		}
		d.Fingerprint = b.fingerprint
		return d, nil
	}
	return nil, fmt.Errorf("no built-in tokenizer has this name; there are %v", Builtin())
}

// rankDefinition returns the definition of a rank file, a pattern and special tokens.
func rankDefinition(list []format.Rank, pattern string, special map[string]int32) (*Definition, error) {
	slices.SortFunc(list, format.ByRank)
	places := make(map[string]uint32, len(list))
	tokens := make([]string, len(list))
	vocab := make([]format.Entry, len(list))
	for i, x := range list {
		places[x.Token] = uint32(i)
		tokens[i], vocab[i] = x.Token, format.Entry{Token: pretokenize.SpellBytes(x.Token), ID: x.Rank}
	}
	return mergesDefinition(vocab, merge.FromRanks(tokens, places), pattern, special)
}

// mergesDefinition returns the definition of the merges that are equivalent to the ranks of a vocabulary, spelled as
// in a tokenizer.json, a pattern and special tokens. Such a tokenizer looks words up before it merges.
func mergesDefinition(vocab []format.Entry, steps []merge.Step, pattern string,
	special map[string]int32) (*Definition, error) {
	d, err := newDefinition(&hf.Config{
		PreTokenizer: map[string]any{"type": "Sequence", "pretokenizers": fingerprint.SplitThenByteLevel(pattern)},
		Model:        map[string]any{"type": "BPE", "ignore_merges": true, "vocab": vocab, "merges": []merge.Rule(nil)},
	}, steps)
	if err != nil {
		return nil, err
	}
	taken := make(map[int32]bool, len(special))
	for content, id := range special {
		if content == "" || id < 0 || id > merge.MaxID || taken[id] || d.isUsed(id) {
			return nil, fmt.Errorf("special token %q: id %d is that of a token, or not in 0..%d", content, id, merge.MaxID)
		}
		taken[id] = true
		d.Added = append(d.Added, added.Token{Content: content, ID: id, Special: true})
	}
	sortAdded(d.Added)
	return d, nil
}

// knownRanks are published rank files with known pattern and special tokens.
var knownRanks = []struct {
	sum     string // see SumRanks
	pattern string
	special map[string]int32
	list    string // the vocabulary of these special tokens
}{
	{"22f185846c3da6972451b865f7a74e12f84c19a13b961e0eeae8468a17aa78fa", "gpt2", builtins[0].special, "r50k_base"},
	{"74248f4aec6cbe440b5d7cf75d4e6cf57a788f2297a9e62f73347da83795871b", "cl100k", builtins[2].special, "cl100k_base"},
	{"6d12c35070eec1461435eb1dd5917d3017695992188898477959ce17077f69c6", "o200k", builtins[3].special, "o200k_base"},
	{"96691ae4a7281d8af2281dd617074f73d2e32080b07eec3f11d20288532941f7", "llama3", llamaSpecial(), "Llama 3.1 to 3.3"},
	{"18fe0daf01fe55579ce04fa3aa1d9b359163c13f04b1782cf300021860150161", "qwen", qwenSpecial(), "Qwen"},
}

// llamaSpecial returns the 256 special tokens of Llama 3.1, 3.2 and 3.3. Llama 3 has the same rank file, without
// three of these, and so different numbers in the names of reserved ones.
func llamaSpecial() map[string]int32 {
	const first = 128000
	special := map[string]int32{
		"<|begin_of_text|>": first, "<|end_of_text|>": first + 1, "<|finetune_right_pad_id|>": first + 4,
		"<|start_header_id|>": first + 6, "<|end_header_id|>": first + 7,
		"<|eom_id|>": first + 8, "<|eot_id|>": first + 9, "<|python_tag|>": first + 10,
	}
	named := slices.Collect(maps.Values(special))
	reserved := 0
	for id := int32(first); id < first+256; id++ {
		if !slices.Contains(named, id) {
			special[fmt.Sprintf("<|reserved_special_token_%d|>", reserved)] = id
			reserved++
		}
	}
	return special
}

// qwenSpecial returns the 208 special tokens of Qwen, whose rank file has no others. Later models are published as
// tokenizer.json.
func qwenSpecial() map[string]int32 {
	const first = 151643
	special := map[string]int32{"<|endoftext|>": first, "<|im_start|>": first + 1, "<|im_end|>": first + 2}
	for extra := range int32(205) {
		special[fmt.Sprintf("<|extra_%d|>", extra)] = first + 3 + extra
	}
	return special
}

// FromRanks returns the definition of a rank file. Its pattern and special tokens are those of the options, or else
// of a known file.
func FromRanks(in io.Reader, o RankOptions) (*Definition, error) {
	list, err := format.ReadRanks(in)
	if err != nil {
		return nil, fmt.Errorf("read rank file: %w", err)
	}
	pattern, special, from := "", map[string]int32{}, UnknownList
	sum := format.SumRanks(list)
	for _, k := range knownRanks {
		if k.sum == sum {
			pattern, special, from = pretokenize.PatternOf(k.pattern), k.special, k.list
		}
	}
	if o.Pattern != "" {
		if pattern = pretokenize.PatternOf(o.Pattern); pattern == "" {
			pattern = o.Pattern
			// tiktoken has a different engine, which panics if a pattern matches nothing.
			if pretokenize.HasLookaround(pattern) {
				return nil, format.UnsupportedError("a look at words or groups in the pattern of a rank file,", pattern)
			}
		}
	}
	if pattern == "" {
		return nil, fmt.Errorf(
			"read rank file: it is none of those that are known; name the pattern that cuts text into words, "+
				"one of %v or a regular expression (option pattern), and its special tokens", pretokenize.PatternNames())
	}
	if len(o.SpecialTokens) > 0 {
		if special, err = specialTokens(o.SpecialTokens, list); err != nil {
			return nil, err
		}
		from = "options"
	}
	d, err := rankDefinition(list, pattern, special)
	if err == nil {
		d.SpecialList = from
	}
	return d, err
}

// UnknownList is the SpecialList of an unknown rank file for which the options name no special tokens.
const UnknownList = "none"

// specialTokens parses "token=id", or "token", which has the id after the last one.
func specialTokens(list []string, ranks []format.Rank) (map[string]int32, error) {
	next := int64(slices.MaxFunc(ranks, format.ByRank).Rank) + 1
	special := make(map[string]int32, len(list))
	for _, s := range list {
		content := s
		if k := strings.LastIndexByte(s, '='); k > 0 {
			if id, err := strconv.ParseInt(s[k+1:], 10, 32); err == nil {
				content, next = s[:k], id
			}
		}
		if _, ok := special[content]; ok || content == "" || next < 0 || next > merge.MaxID {
			return nil, fmt.Errorf("special token %q: want each token once, as TOKEN or TOKEN=ID with an id in 0..%d", s,
				merge.MaxID)
		}
		special[content] = int32(next)
		next++
	}
	return special, nil
}
