package daemon

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"weak"

	"loaderd/internal/config"
	"loaderd/loader/runconfig"
	"loaderd/stream/docstream"
	"loaderd/tokenizer"
)

// LoadTokenizer loads the configured tokenizer and determines the ids that are not text. It returns the settings with
// which the document stream makes tokens, and those that the plan records.
func LoadTokenizer(c config.Tokenizer) (docstream.Tokenization, runconfig.Tokenizer, error) {
	t, ids, _, err := loadTokenizing(c)
	return t, ids, err
}

// LoadRunTokenizer is Tokens for a run, with the configured transformations of documents. It sets the fields of c that
// the plan records.
func LoadRunTokenizer(c *config.Config, log *slog.Logger) (docstream.Tokenization, error) {
	t, ids, m, err := loadTokenizing(c.Tokenizer)
	if err != nil {
		return t, err
	}
	if m != nil {
		logRankFile(m, log)
		if end, ok := m.EndOfText(); ok && c.Tokenizer.End == config.Auto {
			log.Info("end-of-document token", "id", end.ID, "token", end.Content, "source", end.Source)
		}
	}
	documents, err := resolveDocumentTokens(c.Plan.Documents, m)
	if err != nil {
		return t, err
	}
	c.Plan.Tokenizer, c.Plan.Documents = ids, documents
	t.Documents, t.Seed = documents, c.Plan.Seed
	return t, nil
}

// logRankFile logs the number of special tokens of a rank file, because missing special tokens are encoded as text.
func logRankFile(m *tokenizer.Model, log *slog.Logger) {
	specials, list, ok := m.RankFileInfo()
	switch {
	case !ok:
	case specials == 0:
		log.Warn("rank file has no special tokens: name them in tokenizer.special_tokens", "tokenizer", m.Name())
	default:
		log.Info("loaded rank file", "tokenizer", m.Name(), "special_tokens", specials, "list", list)
	}
}

// loadTokenizing is Tokens that also returns the model, nil without a tokenizer.
func loadTokenizing(c config.Tokenizer) (docstream.Tokenization, runconfig.Tokenizer, *tokenizer.Model, error) {
	if c.Name == config.TokenizerNone {
		t, ids, err := resolveTokenIDs(c, docstream.Tokenization{Fingerprint: c.Fingerprint, VocabSize: c.VocabSize}, 0,
			false)
		return t, ids, nil, err
	}
	m, err := LoadModel(c.Name, c.Options())
	if err != nil {
		return docstream.Tokenization{}, runconfig.Tokenizer{}, nil, err
	}
	if c.Fingerprint != "" && c.Fingerprint != m.Fingerprint() {
		return docstream.Tokenization{}, runconfig.Tokenizer{}, nil,
			fmt.Errorf("tokenizer.fingerprint: tokenizer %s has %s, the configuration requires %s", c.Name, m.Fingerprint(),
				c.Fingerprint)
	}
	t := docstream.Tokenization{NewEncoder: func() docstream.Encoder {
		return m.NewEncoder()
	}, Fingerprint: m.Fingerprint(), VocabSize: m.VocabSize()}
	t.Text = func(dst []byte, id int32) []byte {
		text, _ := m.DecodePart(dst, []int32{id}) // an id without a token leaves dst unchanged
		return text
	}
	t.Decode = func(dst []byte, ids []int32) []byte {
		text, _ := m.Decode(dst, ids)
		return text
	}
	end, ok := m.EndOfText()
	t, ids, err := resolveTokenIDs(c, t, end.ID, ok)
	return t, ids, m, err
}

// builtinCache are the built-in models in use (builtinKey -> weak.Pointer[tokenizer.Model]).
var builtinCache sync.Map

type builtinKey struct {
	name                      string
	specialAsText, addSpecial bool
}

// LoadModel loads a tokenizer like tokenizer.Load. All users in a process share one instance of a built-in model while
// it is in use. Building it takes a large part of a start, and its tables are most of an idle daemon's memory.
func LoadModel(nameOrFile string, o tokenizer.Options) (*tokenizer.Model, error) {
	if !slices.Contains(tokenizer.Builtin(), nameOrFile) || o.Pattern != "" || len(o.SpecialTokens) > 0 {
		return tokenizer.Load(nameOrFile, o)
	}
	key := builtinKey{nameOrFile, o.SpecialAsText, o.AddSpecialTokens}
	if used, ok := builtinCache.Load(key); ok {
		if m := used.(weak.Pointer[tokenizer.Model]).Value(); m != nil {
			return m, nil
		}
	}
	m, err := tokenizer.Load(nameOrFile, o)
	if err == nil {
		builtinCache.Store(key, weak.Make(m))
	}
	return m, err
}

// resolveTokenIDs determines the end-of-document and padding ids.
func resolveTokenIDs(c config.Tokenizer, t docstream.Tokenization, end int32,
	known bool) (docstream.Tokenization, runconfig.Tokenizer, error) {
	fail := func(format string, args ...any) (docstream.Tokenization, runconfig.Tokenizer, error) {
		return docstream.Tokenization{}, runconfig.Tokenizer{}, fmt.Errorf(format, args...)
	}
	t.End = -1
	switch id, ok := c.End.ID(); {
	case ok:
		t.End = id
	case c.End == config.Auto && known:
		t.End = end
	case c.End == config.Auto && t.NewEncoder != nil:
		return fail("tokenizer.end: tokenizer %s defines no end-of-text token: set its id, or none", c.Name)
	}
	pad, ok := c.Pad.ID()
	switch {
	case ok:
	case t.End >= 0:
		pad = t.End
	default:
		pad = 0 // padding is masked in any case
	}
	for _, x := range []struct {
		field string
		id    int32
	}{{"end", t.End}, {"pad", pad}} {
		if int(x.id) >= t.VocabSize {
			return fail("tokenizer.%s: %d: want an id below the vocabulary size %d", x.field, x.id, t.VocabSize)
		}
	}
	return t, runconfig.Tokenizer{Name: c.Name, Fingerprint: t.Fingerprint, SpecialAsText: c.SpecialAsText,
		VocabSize: t.VocabSize, End: t.End, Pad: pad}, nil
}
