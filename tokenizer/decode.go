package tokenizer

import (
	"bytes"
	"fmt"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/sentencepiece"
)

// tokenDecoder decodes ids to text.
type tokenDecoder struct {
	decoded  []string // id -> bytes
	hasToken []bool   // id -> whether a token has this id
	decoder  definition.Decoder
	pieces   *sentencepiece.Model // of a SentencePiece model
}

func newTokenDecoder(d *definition.Definition) (m tokenDecoder) {
	set := func(id int32, s string) {
		if grow := int(id) + 1 - len(m.decoded); grow > 0 {
			m.decoded = append(m.decoded, make([]string, grow)...)
			m.hasToken = append(m.hasToken, make([]bool, grow)...)
		}
		m.decoded[id], m.hasToken[id] = s, true
	}
	m.decoded = make([]string, 0, len(d.TokensByID())+len(d.Added))
	m.hasToken = make([]bool, 0, cap(m.decoded))
	if d.SentencePiece != nil {
		for id := range d.SentencePiece.Pieces {
			set(int32(id), d.SentencePiece.Decoded(int32(id)))
		}
		m.pieces = d.SentencePiece
		return m
	}
	if d.Characters == nil && d.WordPiece == nil {
		texts := d.TokensByID()
		for _, v := range d.Entries {
			if text := texts[v.ID]; text != "" {
				set(v.ID, text)
			} else {
				set(v.ID, v.Token)
			}
		}
		for _, a := range d.Added {
			set(a.ID, a.Content)
		}
		return m
	}
	m.decoder = d.Decoder
	for _, v := range d.Entries {
		set(v.ID, m.decoder.Text(v.Token))
	}
	steps := norm.NewStepper(d.Normalize)
	for _, a := range d.Added {
		content := a.Content
		if a.Normalized {
			content = string(steps.Normalize([]byte(content)))
		}
		set(a.ID, m.decoder.Text(content))
	}
	return m
}

// hasID reports whether a token has an id.
func (m *tokenDecoder) hasID(id int32) bool {
	return id >= 0 && int(id) < len(m.hasToken) && m.hasToken[id]
}

// Decode appends the bytes of the ids of a text. An id without a token is an error that names its position.
func (m *Model) Decode(dst []byte, ids []int32) ([]byte, error) {
	n := len(dst)
	dst, err := m.DecodePart(dst, ids)
	if err != nil || len(ids) == 0 {
		return dst, err
	}
	if m.pieces != nil {
		return append(dst[:n], dst[n+m.pieces.AddedSpaces(ids):]...), nil
	}
	drop := m.decoder.StartSpaces
	if m.decoder.TrimsFirstToken {
		drop = len(m.decoded[ids[0]])
	}
	text := dst[n:]
	spaces := len(text) - len(bytes.TrimLeft(text, " "))
	return append(dst[:n], text[min(drop, spaces):]...), nil
}

// DecodePart is Decode for ids from within a text: it drops nothing at the start.
func (m *Model) DecodePart(dst []byte, ids []int32) ([]byte, error) {
	for i, id := range ids {
		if !m.hasID(id) {
			return dst, fmt.Errorf("decode ids: id %d at position %d is not in the vocabulary of %s (%d ids)", id, i, m.name,
				m.VocabSize())
		}
		dst = append(dst, m.decoded[id]...)
	}
	return dst, nil
}
