package daemon

import (
	"errors"
	"fmt"
	"strconv"

	"loaderd/loader/runconfig"
	"loaderd/tokenizer"
)

// resolveDocumentTokens determines the ids of the tokens that are put before and into documents. m is nil without a
// tokenizer.
func resolveDocumentTokens(c runconfig.Documents, m *tokenizer.Model) (runconfig.Documents, error) {
	var before, behind []int32
	if m != nil {
		before, behind = m.TemplateIDs()
	}
	if c.BOS.IsSet() {
		if len(before) > 0 {
			return c, fmt.Errorf(
				"documents.bos: tokenizer.add_special_tokens adds token %d before every text: set only one of them", before[0])
		}
		if c.BOS == runconfig.TokenAuto {
			id, ok := int32(0), false
			if m != nil {
				id, ok = m.BeginOfText()
			}
			if !ok {
				return c, fmt.Errorf("documents.bos: %s defines no beginning-of-text token: set its id or its text, or none",
					describeTokenizer(m))
			}
			c.BOS = tokenFromID(id)
		}
		if err := resolveToken("documents.bos", &c.BOS, m); err != nil {
			return c, err
		}
	}
	if c.FIM.Rate == 0 {
		return c, nil
	}
	if len(before)+len(behind) > 0 {
		return c, errors.New("documents.fim: tokenizer.add_special_tokens adds tokens around every text, which would be " +
			"inside it: " +
			"set it to false, and set documents.bos for a token at the start")
	}
	t := &c.FIM.Tokens
	if t.Prefix == runconfig.TokenAuto {
		prefix, middle, suffix, ok := int32(0), int32(0), int32(0), false
		if m != nil {
			prefix, middle, suffix, ok = m.FIMTokens()
		}
		if !ok {
			return c, fmt.Errorf("documents.fim.tokens: %s has no known fill-in-the-middle tokens: set "+
				"prefix, middle and suffix, each an id or the text of "+
				"a special token, or set documents.fim.rate to 0", describeTokenizer(m))
		}
		*t = runconfig.FIMTokens{Prefix: tokenFromID(prefix), Middle: tokenFromID(middle), Suffix: tokenFromID(suffix)}
	}
	for _, x := range []struct {
		field string
		token *runconfig.Token
	}{{"prefix", &t.Prefix}, {"middle", &t.Middle}, {"suffix", &t.Suffix}} {
		if err := resolveToken("documents.fim.tokens."+x.field, x.token, m); err != nil {
			return c, err
		}
	}
	if t.Prefix == t.Middle || t.Prefix == t.Suffix || t.Middle == t.Suffix {
		return c, fmt.Errorf("documents.fim.tokens: prefix %s, middle %s and suffix %s: want three different tokens",
			t.Prefix, t.Middle, t.Suffix)
	}
	return c, nil
}

// resolveToken replaces a special token's text by its id. The document stream checks that the id is in the vocabulary.
func resolveToken(field string, t *runconfig.Token, m *tokenizer.Model) error {
	if id, ok := t.ID(); ok {
		*t = tokenFromID(id) // 007 becomes 7
		return nil
	}
	if m != nil {
		if id, ok := m.AddedTokenID(string(*t)); ok {
			*t = tokenFromID(id)
			return nil
		}
	}
	return fmt.Errorf("%s: %q: %s has no such special token: set its id, or its exact text in the tokenizer", field,
		string(*t), describeTokenizer(m))
}

func tokenFromID(id int32) runconfig.Token { return runconfig.Token(strconv.Itoa(int(id))) }

func describeTokenizer(m *tokenizer.Model) string {
	if m == nil {
		return "tokenizer none"
	}
	return "tokenizer " + m.Name()
}
