package tokenizer

import (
	"slices"

	"loaderd/tokenizer/internal/added"
)

// AddedTokenID returns the id of an added token by its text.
func (m *Model) AddedTokenID(content string) (id int32, ok bool) {
	t, ok := m.addedToken(func(t added.Token) bool { return t.Content == content })
	return t.ID, ok
}

// EndToken is the token that ends a document.
type EndToken struct {
	ID      int32
	Content string
	Source  string // where it is defined: a file, the post_processor, or "known name"
}

// EndOfText returns the token that ends a document. It is the token that the file's post_processor adds after a text,
// or else the eos_token of the tokenizer_config.json or the generation_config.json in the tokenizer's folder, or else
// the first of the usual names (<|endoftext|>, <|end_of_text|>, ...) among the special tokens. If a configuration
// names a token that the tokenizer lacks, ok is false.
func (m *Model) EndOfText() (end EndToken, ok bool) {
	if behind := m.def.Template.After; len(behind) == 1 {
		if t, ok := m.addedToken(func(t added.Token) bool { return t.ID == behind[0] && t.Special }); ok {
			return EndToken{t.ID, t.Content, "post_processor"}, true
		}
	}
	if c := m.def.End; c.Source != "" {
		if t, ok := m.addedToken(func(t added.Token) bool {
			return c.Content == t.Content || c.Content == "" && c.ID == t.ID
		}); ok {
			return EndToken{t.ID, t.Content, c.Source}, true
		}
		for _, e := range m.def.Entries { // it may be a special token that the tokenizer.json does not list as one
			if e.Token == c.Content && c.Content != "" {
				return EndToken{e.ID, e.Token, c.Source}, true
			}
		}
		return EndToken{Source: c.Source}, false
	}
	t, ok := m.firstSpecial(endTokens)
	return EndToken{t.ID, t.Content, "known name"}, ok
}

// BeginOfText returns the id of the token that begins a document: the one that the file's post_processor adds before
// a text, or else the first of the usual ones (<|begin_of_text|>, <s>, ...) among the special tokens.
func (m *Model) BeginOfText() (id int32, ok bool) {
	if before := m.def.Template.Before; len(before) == 1 && m.hasID(before[0]) {
		return before[0], true
	}
	t, ok := m.firstSpecial(beginTokens)
	return t.ID, ok
}

// FIMTokens returns the ids of the tokens before prefix, middle and suffix of a document for fill-in-the-middle. They
// are the first of the usual ones whose three tokens are all among the added tokens.
func (m *Model) FIMTokens() (prefix, middle, suffix int32, ok bool) {
	for _, names := range fimTokens {
		var ids [3]int32
		all := true
		for i, content := range names {
			var there bool
			ids[i], there = m.AddedTokenID(content)
			all = all && there
		}
		if all {
			return ids[0], ids[1], ids[2], true
		}
	}
	return 0, 0, 0, false
}

// RankFileInfo reports whether the model is from a rank file, which does not contain special tokens. It returns how
// many the model has, and from which list. The list is that of a known vocabulary, "options", or "none".
func (m *Model) RankFileInfo() (specials int, list string, ok bool) {
	return len(m.def.Added), m.def.SpecialList, m.def.SpecialList != ""
}

// TemplateIDs returns the ids that are added before and after every text: none without Options.AddSpecialTokens.
func (m *Model) TemplateIDs() (before, behind []int32) {
	if !m.addSpecial {
		return nil, nil
	}
	return m.def.Template.Before, m.def.Template.After
}

// firstSpecial returns the special token with the first of some contents that a special token has.
func (m *Model) firstSpecial(contents []string) (t added.Token, ok bool) {
	for _, content := range contents {
		if t, ok = m.addedToken(func(t added.Token) bool { return t.Content == content && t.Special }); ok {
			return t, true
		}
	}
	return t, false
}

func (m *Model) addedToken(is func(added.Token) bool) (t added.Token, ok bool) {
	if i := slices.IndexFunc(m.def.Added, is); i >= 0 {
		return m.def.Added[i], true
	}
	return t, false
}

// endTokens are the end-of-document tokens of published byte-level BPE vocabularies, in order of preference.
var endTokens = []string{"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<|eos|>", "<EOS>",
	"<EOS_TOKEN>"}

// beginTokens are the usual tokens that begin documents.
var beginTokens = []string{"<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>", "<s>", "<bos>", "<|bos|>",
	"<BOS>", "<BOS_TOKEN>", "[BOS]"}

// fimTokens are the usual tokens before prefix, middle and suffix.
var fimTokens = [][3]string{
	{"<fim_prefix>", "<fim_middle>", "<fim_suffix>"},       // StarCoder, StarCoder2
	{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}, // CodeGemma, Qwen2.5, cl100k_base
	{"<fim-prefix>", "<fim-middle>", "<fim-suffix>"},       // SantaCoder
	{"▁<PRE>", "▁<MID>", "▁<SUF>"},                         // CodeLlama
	{"<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜fim▁hole｜>"},       // DeepSeek-Coder, whose hole token is before the suffix
}
