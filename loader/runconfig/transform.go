package runconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Token is a token of a configuration: an id, or the way to find it. In a plan it is an id, or empty for none.
type Token string

// Values of Token in addition to ids and the texts of special tokens.
const (
	TokenAuto Token = "auto" // the token of the tokenizer
	TokenNone Token = "none" // no such token
)

// ID returns the id, or false if t is not an id.
func (t Token) ID() (int32, bool) {
	n, err := strconv.ParseInt(string(t), 10, 32)
	return int32(n), err == nil && n >= 0
}

// IsSet reports whether a token is configured.
func (t Token) IsSet() bool { return t != "" && t != TokenNone }

// FIM configures fill-in-the-middle: documents are rearranged into prefix, suffix and middle, with a token before
// each.
type FIM struct {
	// Rate is the share of documents that are rearranged, 0 to 1.
	Rate float64 `koanf:"rate" json:"rate"`
	// SPMRate is the share of these in which the suffix precedes the prefix.
	SPMRate float64   `koanf:"spm_rate" json:"spm_rate"`
	Tokens  FIMTokens `koanf:"tokens" json:"tokens"`
}

// FIMTokens are the tokens before the three parts of a document.
type FIMTokens struct {
	Prefix Token `koanf:"prefix" json:"prefix"`
	Middle Token `koanf:"middle" json:"middle"`
	Suffix Token `koanf:"suffix" json:"suffix"`
}

// MaxTokens bounds the tokens of a document, before tokens are inserted.
type MaxTokens struct {
	// At is the maximum number of tokens of a document; 0 sets no bound.
	At int `koanf:"at" json:"at"`
	// Do is how longer documents are treated: MaxCut, MaxDrop or MaxSplit.
	Do string `koanf:"do" json:"do"`
}

// Values of MaxTokens.Do.
const (
	MaxCut  = "cut"  // the first tokens are kept
	MaxDrop = "drop" // the document is skipped
	// MaxSplit splits it into several documents of nearly the same number of tokens.
	MaxSplit = "split"
)

// Versions of the transformations. A change that gives a document other tokens needs a higher version. Then no run
// that was started with the old version continues with the new one.
const (
	bosVersion       = 1
	fimVersion       = 1
	maxTokensVersion = 1
)

// canonical returns the configuration as stored in a plan: only transformations that are on, with their versions.
func (c Documents) canonical() Documents {
	versions := map[string]int{}
	if c.BOS.IsSet() {
		versions["bos"] = bosVersion
	} else {
		c.BOS = ""
	}
	if c.FIM.Rate != 0 {
		versions["fim"] = fimVersion
	} else {
		c.FIM = FIM{}
	}
	if c.MaxTokens.At != 0 {
		versions["max_tokens"] = maxTokensVersion
	} else {
		c.MaxTokens = MaxTokens{}
	}
	if c.Versions == nil && len(versions) > 0 { // a plan contains the versions that it was made with
		c.Versions = versions
	}
	return c
}

// HasSameTokens reports whether the transformations of both configurations give every document the same tokens.
func (c Config) HasSameTokens(other Config) bool {
	shape := func(c Config) []byte {
		d := c.Documents.canonical()
		d.Dedupe, d.Where, d.MultiplePerMessage, d.Columns, d.Meta = 0, "", false, nil, nil
		if d.FIM.Rate == 0 {
			c.Seed = 0 // no draw depends on it
		}
		b, _ := json.Marshal([]any{d, c.Seed})
		return b
	}
	return bytes.Equal(shape(c), shape(other))
}

func (c Documents) validate() (bad []FieldError) {
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: "documents." + field, Value: value, Want: want})
	}
	if c.Dedupe < 0 || c.Dedupe > 1<<26 {
		add("dedupe", c.Dedupe, "0 (keep all) to 2^26 documents")
	}
	for _, x := range []struct {
		field string
		share float64
	}{{"fim.rate", c.FIM.Rate}, {"fim.spm_rate", c.FIM.SPMRate}} {
		if !(x.share >= 0 && x.share <= 1) {
			add(x.field, x.share, "a share of 0 to 1")
		}
	}
	if t := c.FIM.Tokens; c.FIM.Rate != 0 {
		auto := 0
		for _, x := range []struct {
			field string
			token Token
		}{{"prefix", t.Prefix}, {"middle", t.Middle}, {"suffix", t.Suffix}} {
			if !x.token.IsSet() {
				add("fim.tokens."+x.field, x.token, "auto, a token id or the text of a special token")
			}
			if x.token == TokenAuto {
				auto++
			}
		}
		if auto != 0 && auto != 3 {
			add("fim.tokens", t, "prefix, middle and suffix, or auto for all of them")
		}
	}
	if at := c.MaxTokens.At; at < 0 || at > math.MaxInt32 {
		add("max_tokens.at", at, "0 (no bound) to 2^31-1 tokens")
	}
	if do := c.MaxTokens.Do; do != MaxCut && do != MaxDrop && do != MaxSplit && (do != "" || c.MaxTokens.At != 0) {
		add("max_tokens.do", do, fmt.Sprintf("%s, %s or %s", MaxCut, MaxDrop, MaxSplit))
	}
	c.validateColumns(add)
	if err := c.CheckFilter(c.Where); err != nil {
		add("where", c.Where, wantFilter(err))
	}
	return bad
}
