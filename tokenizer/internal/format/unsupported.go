package format

import (
	"encoding/json"
	"fmt"
	"strings"
)

// PretokenizedHint is the end of every refusal.
const PretokenizedHint = "send documents already tokenized (content type application/vnd.loaderd.tokens, " +
	"docs/how-to/tokenizers.md) " +
	"instead"

// ConvertHint is the end of the refusal of a file that is one part of a tokenizer, or another spelling of one.
const ConvertHint = `give the tokenizer.json of the same model, or write one with transformers, ` +
	`AutoTokenizer.from_pretrained("FOLDER").save_pretrained("OUT"), or ` + PretokenizedHint

// UnsupportedError returns the error for a component that has not been compared with the reference.
func UnsupportedError(component string, value any) error {
	return fmt.Errorf("%s %s is not supported: %s", component, Describe(value), PretokenizedHint)
}

// Describe returns a value from the file as text, truncated if it is long.
func Describe(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return Truncate(string(b))
}

// Truncate truncates a text for a message.
func Truncate(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}
