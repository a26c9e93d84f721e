package tokenizer

import (
	"fmt"

	loader "github.com/pkoukk/tiktoken-go-loader"
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
	{"cl100k_base", "cl100k_base.tiktoken", "cl100k", map[string]int32{
		"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
		"<|endofprompt|>": 100276,
	}},
	{"o200k_base", "o200k_base.tiktoken", "o200k", map[string]int32{"<|endoftext|>": 199999, "<|endofprompt|>": 200018}},
}

// Builtin lists the names that Load knows without a file.
func Builtin() []string {
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
		d, err := rankDefinition(ranks)
		if err != nil {
			return nil, fmt.Errorf("rank file %s: %w", b.ranks, err)
		}
		d.family = familyNamed(b.family)
		for content, id := range b.special {
			d.added = append(d.added, addedToken{content: content, id: id, special: true})
		}
		sortAdded(d.added)
		return d, nil
	}
	return nil, fmt.Errorf("no built-in tokenizer has this name; there are %v", Builtin())
}

// rankDefinition finds the merges of a rank file. There a pair's rank is the rank of its bytes as a token, however they
// are split. But of all ways to split a token only one can come up: the one that merging by lower ranks leaves, because
// bytes are only ever joined with neighbours, and inside a token that is done in the same order wherever it stands.
// So that pair is the token's merge, provided that it is a pair, which is checked.
func rankDefinition(ranks map[string]int) (*definition, error) {
	byRank := make([]string, len(ranks))
	for text, rank := range ranks {
		if rank < 0 || rank >= len(byRank) || byRank[rank] != "" || text == "" {
			return nil, fmt.Errorf("token %q has rank %d; ranks must be 0..%d, each once, of non-empty tokens", text, rank, len(byRank)-1)
		}
		byRank[rank] = text
	}
	m := newMerges(len(byRank))
	d := &definition{merges: m, wholeWords: true, tokens: make(map[string]int32, len(byRank))}
	symbols := make([]uint32, len(byRank))
	var s longScratch
	var parts []int32
	for rank, text := range byRank {
		d.tokens[text] = int32(rank)
		if len(text) == 1 {
			symbols[rank] = uint32(text[0])
			m.ids[text[0]] = int32(rank)
			continue
		}
		if parts = m.encode(&s, parts[:0], []byte(text)); len(parts) != 2 || parts[0] < 0 || parts[1] < 0 {
			return nil, fmt.Errorf("token %d (%q) is %d tokens of lower rank, not two", rank, text, len(parts))
		}
		symbols[rank] = m.symbol(text, int32(rank))
		if err := m.join(symbols[parts[0]], symbols[parts[1]], symbols[rank], true); err != nil {
			return nil, err
		}
	}
	return d, m.checkBytes()
}
