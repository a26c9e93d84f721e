package format

// Config is what a tokenizer.json says. Model holds "vocab" as []Entry in the order of the file, and "merges" as []merge.Rule, where the file has them in
// BPE's form.
type Config struct {
	Version       string
	Truncation    map[string]any
	Padding       map[string]any
	AddedTokens   []AddedToken
	Normalizer    map[string]any
	PreTokenizer  map[string]any
	PostProcessor map[string]any
	Decoder       map[string]any
	Model         map[string]any
}

// AddedToken is a token that is looked for in the text before it is cut into words.
type AddedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}
