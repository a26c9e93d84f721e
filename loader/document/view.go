package document

import "loaderd/packonline"

// View is a document as stored in its stream, for display; it may be unused.
type View struct {
	Info Info
	Document
	Problem string // for an undecodable document: the reason's name and a sentence
	// IDs are the producers' ids of the documents of a message with several, by index; empty for none.
	IDs []string
}

// InnerDocument is one of the documents of a message with several.
type InnerDocument struct {
	Index  int32    // from 0
	Start  int32    // index of its first token in the message
	ID     string   // producer's id, empty for none
	Weight *float32 // as Content.Weight
}

// InnerDocumentAt returns the document that contains a token; false if the message is one document or lacks the token.
func (s View) InnerDocumentAt(token int32) (InnerDocument, bool) {
	if s.Docs == nil || int(token) >= s.Len() {
		return InnerDocument{}, false
	}
	i, start := s.DocAt(token)
	in := InnerDocument{Index: int32(i), Start: start, Weight: s.Docs[i].Weight}
	if i < len(s.IDs) {
		in.ID = s.IDs[i]
	}
	return in, true
}

// LossTokens returns how many of tokens [start, end) have a loss; false if the document has fewer tokens.
func (s View) LossTokens(start, end int32) (int32, bool) {
	if int(end) > s.Len() {
		return 0, false
	}
	return s.Loss.LossTokens(packonline.Piece{Start: start, Length: end - start}), true
}
