package tokenizer

// Special is the id of an added token, by its text.
func (m *Model) Special(content string) (id int32, ok bool) {
	for _, a := range m.def.Added {
		if a.Content == content {
			return a.ID, true
		}
	}
	return 0, false
}

// EndOfText is the id of the token that ends a document: the first of the usual ones
// (<|endoftext|>, <|end_of_text|>, ...) among the added tokens.
func (m *Model) EndOfText() (id int32, ok bool) { return m.firstOf(endTokens) }

// BeginOfText is the id of the token that begins a document: the one that the file's post_processor puts before a text, else the first
// of the usual ones (<|begin_of_text|>, <s>, ...) among the added tokens.
func (m *Model) BeginOfText() (id int32, ok bool) {
	if before := m.def.Template.Before; len(before) == 1 && m.known(before[0]) {
		return before[0], true
	}
	return m.firstOf(beginTokens)
}

// FillIn are the ids of the tokens before prefix, middle and suffix of a document that is filled in the middle: the first of the usual ones whose three
// tokens are all among the added tokens.
func (m *Model) FillIn() (prefix, middle, suffix int32, ok bool) {
	for _, names := range fillInTokens {
		var ids [3]int32
		all := true
		for i, content := range names {
			var there bool
			ids[i], there = m.Special(content)
			all = all && there
		}
		if all {
			return ids[0], ids[1], ids[2], true
		}
	}
	return 0, 0, 0, false
}

// RankFile reports whether the model is from a rank file, which does not name its special tokens: how many it has, and from which list. The list is that of a
// known vocabulary, "options", or "none".
func (m *Model) RankFile() (specials int, list string, ok bool) {
	return len(m.def.Added), m.def.SpecialList, m.def.SpecialList != ""
}

// Around returns the ids that every text gets before and behind it: none without Options.AddSpecialTokens.
func (m *Model) Around() (before, behind []int32) {
	if !m.addSpecial {
		return nil, nil
	}
	return m.def.Template.Before, m.def.Template.Behind
}

func (m *Model) firstOf(contents []string) (id int32, ok bool) {
	for _, content := range contents {
		if id, ok = m.Special(content); ok {
			return id, true
		}
	}
	return 0, false
}

// endTokens are the end-of-document tokens of published byte-level BPE vocabularies, in order of preference.
var endTokens = []string{"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<|eos|>", "<EOS>", "<EOS_TOKEN>"}

// beginTokens are those that begin documents.
var beginTokens = []string{"<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>", "<s>", "<bos>", "<|bos|>", "<BOS>", "<BOS_TOKEN>", "[BOS]"}

// fillInTokens are those before prefix, middle and suffix.
var fillInTokens = [][3]string{
	{"<fim_prefix>", "<fim_middle>", "<fim_suffix>"},       // StarCoder, StarCoder2
	{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}, // CodeGemma, Qwen2.5, cl100k_base
	{"<fim-prefix>", "<fim-middle>", "<fim-suffix>"},       // SantaCoder
	{"▁<PRE>", "▁<MID>", "▁<SUF>"},                         // CodeLlama
	{"<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜fim▁hole｜>"},       // DeepSeek-Coder, whose hole stands before the suffix
}
