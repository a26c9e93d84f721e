// Package tokenizer turns text into the token ids that the reference implementations
// (Hugging Face tokenizers, tiktoken) give for it, id for id, for byte pair encoding over bytes or characters.
//
// A Model is built in (gpt2, cl100k_base, o200k_base) or read from a tokenizer.json or a rank file.
// What a file asks for and this package has not been compared with the reference on is
// refused at load, by name: a wrong id is worse than an error. Encoding is pure: no clock,
// no goroutine, no I/O; its time is n log n in the length of the text in the worst case.
package tokenizer

import (
	"fmt"
	"regexp"
	"strconv"

	"loaderd/tokenizer/internal/definition"
)

// Options choose among the reference's ways to encode.
type Options struct {
	// SpecialAsText encodes special tokens that are written in a text as ordinary text, as
	// the reference does with encode_special_tokens. By default they become their ids, also
	// the reference's default.
	SpecialAsText bool
	// AddSpecialTokens puts the ids around every text that the file's post_processor asks for (BOS, EOS), as the reference
	// does with add_special_tokens.
	AddSpecialTokens bool
	// Pattern cuts text into words for a rank file: gpt2, cl100k, llama3, o200k, qwen, kimi, ... or a regular expression.
	// Empty takes that of a known file.
	Pattern string
	// SpecialTokens are those of a rank file, TOKEN or TOKEN=ID; without an id a token has the one behind the last. None
	// takes those of a known file.
	SpecialTokens []string
}

// Load returns the tokenizer of a built-in name (see Builtin), of a tokenizer.json file or of a rank file (*.tiktoken).
// The error for a file that needs something unverified names the component and its value.
func Load(nameOrFile string, o Options) (*Model, error) {
	d, err := definition.Read(nameOrFile, definition.RankOptions{Pattern: o.Pattern, SpecialTokens: o.SpecialTokens})
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", strconv.Quote(nameOrFile), err)
	}
	m, err := compile(d, o)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", strconv.Quote(nameOrFile), err)
	}
	m.name = nameOrFile
	return m, nil
}

// Builtin lists the names that Load knows without a file.
func Builtin() []string { return definition.Builtin() }

// FingerprintForm is what every fingerprint looks like, those of tokenizers that are not ours too.
var FingerprintForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Name is the built-in name or the file that the model was loaded from.
func (m *Model) Name() string { return m.name }

// VocabSize is the largest id of the model plus one: ids are 0..VocabSize-1, some of which
// may stand for nothing.
func (m *Model) VocabSize() int { return len(m.decoded) }

// Fingerprint is "sha256:" and the hash of everything that shapes ids: vocabulary, merges,
// normalizer, pre-tokenizer, added tokens with their flags, and Options. The layout of the
// file it came from does not matter. It is computed when it is first asked for.
func (m *Model) Fingerprint() string { return m.fingerprint() }
