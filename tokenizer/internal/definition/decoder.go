package definition

import (
	"strconv"
	"strings"

	"loaderd/tokenizer/internal/format"
)

// Decoder decodes tokens to text for a file without byte-level merges. It does not affect ids. Unknown parts
// of a file's decoder are ignored.
type Decoder struct {
	replace         []replacement
	byteFallback    bool // <0x0A> is a byte
	StartSpaces     int  // number of spaces that are dropped at the start of the text
	TrimsFirstToken bool // all leading spaces of the first token are dropped
	spacesWords     bool // tokens without innerPrefix are words with a space before them
	innerPrefix     string
	tidies          bool // spaces before punctuation are dropped
}

type replacement struct{ from, to string }

func readDecoder(c map[string]any) (d Decoder) {
	text := func(m map[string]any, field string) string {
		s, _ := m[field].(string)
		return s
	}
	switch c["type"] {
	case "Sequence":
		list, _ := c["decoders"].([]any)
		for _, x := range list {
			part, _ := x.(map[string]any)
			one := readDecoder(part)
			d.replace = append(d.replace, one.replace...)
			d.byteFallback = d.byteFallback || one.byteFallback
			d.StartSpaces += one.StartSpaces
			d.TrimsFirstToken = d.TrimsFirstToken || one.TrimsFirstToken
			if one.spacesWords {
				d.spacesWords, d.innerPrefix, d.tidies = true, one.innerPrefix, one.tidies
			}
		}
	case "Replace":
		pattern, _ := c["pattern"].(map[string]any)
		if from := text(pattern, "String"); from != "" {
			d.replace = []replacement{{from, text(c, "content")}}
		}
	case "ByteFallback":
		d.byteFallback = true
	case "Strip":
		if n, ok := wholeID(c["start"]); ok && text(c, "content") == " " {
			d.StartSpaces = int(n)
		}
	case "WordPiece":
		d.spacesWords, d.innerPrefix, d.tidies = true, text(c, "prefix"), c["cleanup"] == true
		d.StartSpaces = 1
	case "Metaspace":
		if mark := text(c, "replacement"); mark != "" {
			d.replace = []replacement{{mark, " "}}
		}
		d.TrimsFirstToken = c["prepend_scheme"] != "never" && c["add_prefix_space"] != false
	}
	return d
}

// Text returns the text of a token inside a text.
func (d Decoder) Text(token string) string {
	if d.byteFallback && format.ByteToken.MatchString(token) {
		b, _ := strconv.ParseUint(token[3:5], 16, 8)
		return string([]byte{byte(b)})
	}
	if d.spacesWords {
		token = d.wordText(token)
	}
	for _, r := range d.replace {
		token = strings.ReplaceAll(token, r.from, r.to)
	}
	return token
}

// wordText returns the text of a WordPiece token inside a text.
func (d Decoder) wordText(token string) string {
	if inner, ok := strings.CutPrefix(token, d.innerPrefix); ok && d.innerPrefix != "" {
		token = inner
	} else {
		token = " " + token
	}
	if d.tidies {
		token = tidier.Replace(token)
	}
	return token
}

// tidier drops the spaces that are before punctuation and parts of English words.
var tidier = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m",
	" do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")
