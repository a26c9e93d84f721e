package document

import "loaderd/packonline"

// View is a document as its stream has it, for people; those that are not used too.
type View struct {
	Info Info
	Document
	Problem string // of an undecodable one: the reason's name and a sentence
	// IDs are the producers' ids of the documents of a message with several, by their index; empty for none.
	IDs []string
}

// Inner is one of the documents of a message with several.
type Inner struct {
	Index  int32    // from 0
	Start  int32    // its first token among those of the message
	ID     string   // producer's id, empty for none
	Weight *float32 // as Content.Weight
}

// Inner returns the document that a token is of; false for a message that is one document, and for one without that
// token.
func (s View) Inner(token int32) (Inner, bool) {
	if s.Docs == nil || int(token) >= s.Len() {
		return Inner{}, false
	}
	i, start := s.DocAt(token)
	in := Inner{Index: int32(i), Start: start, Weight: s.Docs[i].Weight}
	if i < len(s.IDs) {
		in.ID = s.IDs[i]
	}
	return in, true
}

// LossTokens returns how many of tokens [start, end) have a loss; false where the document has not so many tokens.
func (s View) LossTokens(start, end int32) (int32, bool) {
	if int(end) > s.Len() {
		return 0, false
	}
	n := end - start
	s.Loss.Masked(packonline.Piece{Start: start, Length: n}, func(from, to int32) { n -= to - from })
	return n, true
}
