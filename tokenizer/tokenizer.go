// Package tokenizer encodes text as the token ids of the reference implementations (Hugging Face tokenizers, tiktoken,
// SentencePiece), id for id, for byte pair encoding over bytes or characters, WordPiece and Unigram models.
//
// A Model is built in (gpt2, cl100k_base, o200k_base) or read from a tokenizer.json, a tokenizer.model or a rank file.
// Loading refuses, by name, every component of a file that has not been compared with the reference, because a wrong id
// is worse than an error. Encoding is pure: no clock, no goroutine, no I/O. Its time is n log n in the length of the
// text in the worst case.
package tokenizer

import (
	"fmt"
	"regexp"
	"strconv"

	"loaderd/tokenizer/internal/definition"
)

// Options select among the reference's ways to encode.
type Options struct {
	// SpecialAsText encodes special tokens that are written in a text as ordinary text, like encode_special_tokens of
	// the reference. By default they become their ids, which is also the reference's default.
	SpecialAsText bool
	// AddSpecialTokens adds the ids of the file's post_processor (BOS, EOS) around every text, like add_special_tokens
	// of the reference.
	AddSpecialTokens bool
	// Pattern splits text into words for a rank file: gpt2, cl100k, llama3, o200k, qwen, kimi, ... or a regular
	// expression. If empty, it is that of a known file.
	Pattern string
	// SpecialTokens are those of a rank file, TOKEN or TOKEN=ID. Without an id a token has the one after the last.
	// If empty, they are those of a known file.
	SpecialTokens []string
}

// Load returns the tokenizer of a built-in name (see Builtin), of a tokenizer.json or tokenizer.model file, or of a
// rank file (*.tiktoken). The error for a file with an unverified component names the component and its value.
func Load(nameOrFile string, o Options) (*Model, error) {
	d, err := definition.Read(nameOrFile, definition.RankOptions{Pattern: o.Pattern, SpecialTokens: o.SpecialTokens})
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", strconv.Quote(nameOrFile), err)
	}
	m, err := newModel(d, o)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", strconv.Quote(nameOrFile), err)
	}
	m.name = nameOrFile
	return m, nil
}

// Builtin returns the names that Load accepts without a file.
func Builtin() []string { return definition.Builtin() }

// FingerprintPattern matches every fingerprint, including those of other programs' tokenizers.
var FingerprintPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Name returns the built-in name or the file from which the model was loaded.
func (m *Model) Name() string { return m.name }

// VocabSize returns the largest id of the model plus one: ids are 0..VocabSize-1, some of which may have no token.
func (m *Model) VocabSize() int { return len(m.decoded) }

// Fingerprint returns "sha256:" and the hash of everything that determines ids: vocabulary, merges, normalizer,
// pre-tokenizer, added tokens with their flags, and Options. The layout of the source file does not matter. It is
// computed on first use.
func (m *Model) Fingerprint() string { return m.fingerprint() }
