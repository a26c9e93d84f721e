package format

import (
	"encoding/json"
	"fmt"

	hf "github.com/sugarme/tokenizer"
)

// parseConfig reads a tokenizer.json into the library's Config, as the library's ConfigFromFile does. That function
// only accepts the path of a file and reads it without a bound. The text holds all sections but these, which ReadConfig
// decodes:
//
//   - model.vocab: the library converts the ids to floating-point numbers in a map, and so loses the order of the
//     entries and duplicates. For 262,144 tokens and their merges that takes 200 MB, and half as long again as all of
//     loading.
//   - model.merges: its castMerge joins pairs by a space, so that a part with a space in it makes another merge.
//
// The text has only fields whose names are spelled as the library's, because encoding/json accepts "Special" for
// "special".
func parseConfig(text []byte) (c *hf.Config, err error) {
	err = recoverPanic(func() error { return json.Unmarshal(text, &c) })
	return c, err
}

// recoverPanic calls a function that may be the library's. It returns a panic as an error.
func recoverPanic(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("github.com/sugarme/tokenizer cannot read the file: %v", p)
		}
	}()
	return call()
}
