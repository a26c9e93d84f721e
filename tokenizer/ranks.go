package tokenizer

import (
	"cmp"
	"fmt"
	"slices"

	loader "github.com/pkoukk/tiktoken-go-loader"
	hf "github.com/sugarme/tokenizer"
)

// builtin is a tokenizer whose rank file is compiled in.
type builtin struct {
	name    string
	ranks   string // file of tiktoken-go-loader
	family  string
	special map[string]int32
}

// Ranks, patterns and special tokens are those of tiktoken's openai_public. Its pattern for cl100k_base tries \s++$
// before \s*[\r\n]; no token of cl100k_base goes past a newline into other whitespace, so the ids are the same.
var builtins = []builtin{
	{"gpt2", "r50k_base.tiktoken", "gpt2", map[string]int32{"<|endoftext|>": 50256}},
	{"r50k_base", "r50k_base.tiktoken", "gpt2", map[string]int32{"<|endoftext|>": 50256}},
	{"cl100k_base", "cl100k_base.tiktoken", "cl100k", map[string]int32{
		"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
		"<|endofprompt|>": 100276,
	}},
	{"o200k_base", "o200k_base.tiktoken", "o200k", map[string]int32{"<|endoftext|>": 199999, "<|endofprompt|>": 200018}},
}

// builtinNames lists the tokenizers that need no file.
func builtinNames() []string {
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.name
	}
	return names
}

func builtinDefinition(name string) (*definition, error) {
	for _, b := range builtins {
		if b.name != name {
			continue
		}
		ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(b.ranks)
		if err != nil {
			return nil, fmt.Errorf("read rank file %s: %w", b.ranks, err)
		}
		list := make([]rankEntry, 0, len(ranks))
		for token, rank := range ranks {
			list = append(list, rankEntry{token, int32(rank)})
		}
		d, err := rankDefinition(list, familyPattern(b.family), b.special)
		if err != nil {
			return nil, fmt.Errorf("rank file %s: %w", b.ranks, err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("no built-in tokenizer has this name; there are %v", builtinNames())
}

// rankEntry is a token of a rank file: its bytes and its rank, which is its id.
type rankEntry struct {
	token string
	rank  int32
}

func byRank(a, b rankEntry) int { return cmp.Compare(a.rank, b.rank) }

// rankDefinition is that of a rank file, a pattern and special tokens. Such a tokenizer looks words up before it merges.
func rankDefinition(list []rankEntry, pattern string, special map[string]int32) (*definition, error) {
	slices.SortFunc(list, byRank)
	c := &hf.Config{
		PreTokenizer: map[string]any{"type": "Sequence", "pretokenizers": splitBytes(pattern)},
		Model:        map[string]any{"type": "BPE", "ignore_merges": true},
	}
	ranks := make(map[string]uint32, len(list))
	tokens := make([]string, len(list))
	vocab := make([]vocabEntry, len(list))
	taken := make(map[int32]bool, len(list))
	for i, x := range list {
		ranks[x.token] = uint32(x.rank)
		tokens[i], vocab[i] = x.token, vocabEntry{spellBytes(x.token), x.rank}
		taken[x.rank] = true
	}
	merges := rankMerges(tokens, ranks)
	for i, m := range merges {
		merges[i] = mergeRule{spellBytes(m.left), spellBytes(m.right)}
	}
	c.Model["vocab"], c.Model["merges"] = vocab, merges
	d, err := newDefinition(c, true)
	if err != nil {
		return nil, err
	}
	for content, id := range special {
		if content == "" || id < 0 || id > maxID || taken[id] {
			return nil, fmt.Errorf("special token %q: id %d is that of a token, or not in 0..%d", content, id, maxID)
		}
		taken[id] = true
		d.added = append(d.added, addedToken{content: content, id: id, special: true})
	}
	sortAdded(d.added)
	return d, nil
}
