package sentencepiece

import "strings"

// Decoded returns the text of a piece inside a text.
func (m *Model) Decoded(id int32) string {
	switch p := &m.Pieces[id]; p.Type {
	case Control:
		return ""
	case Unknown:
		return m.UnknownSurface
	case Byte:
		for b, of := range m.bytes {
			if of == id {
				return string([]byte{byte(b)})
			}
		}
		return ""
	default:
		return strings.ReplaceAll(p.Text, spaceMark, " ")
	}
}

// AddedSpaces returns the number of spaces at the start of the decoded text of ids that SentencePiece drops.
func (m *Model) AddedSpaces(ids []int32) (spaces int) {
	if !m.AddDummyPrefix && !m.RemoveExtraWhitespaces {
		return 0
	}
	for _, id := range ids {
		p := &m.Pieces[id]
		if p.Type == Control {
			continue
		}
		if p.isReserved() || !strings.HasPrefix(p.Text, spaceMark) {
			break
		}
		spaces++
		if !m.RemoveExtraWhitespaces || p.Text != spaceMark {
			break
		}
	}
	return spaces
}
