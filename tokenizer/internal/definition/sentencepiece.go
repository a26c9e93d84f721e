package definition

import (
	"fmt"
	"io"
	"slices"

	"loaderd/tokenizer/internal/added"
	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/sentencepiece"
)

// FromSentencePiece reads a tokenizer.model of SentencePiece.
func FromSentencePiece(in io.Reader) (*Definition, error) {
	message, err := readAtMost(in, maxModelBytes)
	var f *sentencepiece.File
	if err == nil {
		f, err = sentencepiece.Parse(message)
	}
	d := &Definition{}
	if err == nil {
		d.SentencePiece, err = sentencepiece.New(f)
	}
	if err != nil {
		return nil, fmt.Errorf("read SentencePiece model: %w", err)
	}
	entries := make([]format.Entry, len(f.Pieces))
	for id, p := range f.Pieces {
		entries[id] = format.Entry{Token: p.Text, ID: int32(id)}
		if p.Type == sentencepiece.Control {
			d.Added = append(d.Added, added.Token{Content: p.Text, ID: int32(id), Special: true})
			if p.Text == f.EndPiece {
				d.End = EndConfig{Content: p.Text, ID: int32(id), Source: "eos_piece"}
			}
		}
	}
	return d, d.setVocabulary(entries)
}

// maxModelBytes bounds a tokenizer.model.
const maxModelBytes = 256 << 20

// readSentencePiece reads a tokenizer.model, and the token at the end of a text from the files in its folder.
func readSentencePiece(in io.Reader, folder string) (*Definition, error) {
	d, err := FromSentencePiece(in)
	if err != nil || folder == "" {
		return d, err
	}
	end, err := readEndConfig(folder)
	if end.Source != "" {
		d.End = end
	}
	return d, err
}

// sentencePieceFingerprint returns the fingerprint of a SentencePiece model.
func (d *Definition) sentencePieceFingerprint() string {
	f := d.SentencePiece.File
	id := fingerprint.SentencePiece{Kind: []string{"unigram", "bpe", "word", "char"}[f.Kind-sentencepiece.Unigram],
		Charsmap: f.Charsmap, Options: map[string]bool{"byte_fallback": f.ByteFallback,
			"treat_whitespace_as_suffix": f.SpaceAsSuffix, "add_dummy_prefix": f.AddDummyPrefix,
			"remove_extra_whitespaces": f.RemoveExtraWhitespaces, "escape_whitespaces": f.EscapeWhitespaces}}
	return id.Fingerprint(func(yield func(fingerprint.ScoredPiece) bool) {
		for p := range slices.Values(f.Pieces) {
			if !yield(fingerprint.ScoredPiece{Text: p.Text, Score: p.Score, Type: int32(p.Type)}) {
				return
			}
		}
	})
}

// FingerprintOf returns the fingerprint of a definition with settings.
func (d *Definition) FingerprintOf(s fingerprint.Settings) string {
	if d.SentencePiece != nil {
		return d.sentencePieceFingerprint()
	}
	return d.Identity.Fingerprint(s)
}
