package fingerprint

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
)

// SentencePiece is the part of a tokenizer.model that determines ids.
type SentencePiece struct {
	Kind     string          // unigram, bpe, word or char
	Options  map[string]bool // by the names of ModelProto
	Charsmap []byte
}

// ScoredPiece is an element of its vocabulary.
type ScoredPiece struct {
	Text  string
	Score float32
	Type  int32
}

// Fingerprint hashes everything that determines ids.
func (s SentencePiece) Fingerprint(pieces iter.Seq[ScoredPiece]) string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	charsmap := sha256.Sum256(s.Charsmap)
	model := map[string]any{"type": "SentencePiece", "kind": s.Kind, "charsmap": hex.EncodeToString(charsmap[:])}
	for name, v := range s.Options {
		model[name] = v
	}
	w.WriteString(`{"model":`)
	writeJSON(w, model)
	writeList(w, `,"version":"`+fingerprintVersion+`","vocab":`, pieces, func(p ScoredPiece) {
		w.WriteByte('[')
		writeString(w, p.Text)
		fmt.Fprintf(w, `,"%08x",%d]`, math.Float32bits(p.Score), p.Type)
	})
	w.WriteByte('}')
	w.Flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
