package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// advice ends every refusal.
const advice = "send documents already tokenized (content type application/vnd.loaderd.tokens, docs/tokenizers.md) instead"

// refuse is the error for what has not been compared with the reference.
func refuse(component string, value any) error {
	return fmt.Errorf("%s %s is not supported: %s", component, describe(value), advice)
}

// describe shows a value from the file, cut where it is long.
func describe(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return cut(string(b))
}

// cut shortens what a message quotes.
func cut(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}
