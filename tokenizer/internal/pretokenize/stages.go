package pretokenize

import "loaderd/tokenizer/internal/pattern"

// stage splits a text into pieces: the matches of its pattern, and the text between them.
type stage struct {
	pattern       *pattern.Pattern // nil represents trailingPattern
	mergesMatches bool             // consecutive matches are one piece
}

// pieceEnd returns the end of the piece that starts at s[i], i < len(s). An empty match starts a piece too; the
// reference then continues after the next character.
func (st *stage) pieceEnd(s []byte, i int, a *pattern.SearchState) int {
	if st.pattern == nil {
		return trailingEnd(s, i)
	}
	end := st.pattern.MatchIn(s, i, a)
	if end <= i {
		return st.pattern.SkipToMatch(s, i, a)
	}
	for st.mergesMatches && end < len(s) {
		more := st.pattern.MatchIn(s, end, a)
		if more < 0 {
			break
		}
		end = more
	}
	return end
}

// MaxStages bounds the pre-tokenizers in sequence.
const MaxStages = 12

// Stages split in sequence, each within the pieces of the one before it. For the later stages a piece is a separate
// text.
type Stages []stage

// OpenPieces has, for each stage, the piece that is being split further.
type OpenPieces [MaxStages]openPiece

type openPiece struct {
	begin, end int
	around     pattern.SearchState // of the text that the stage splits
}

// PieceEnd returns the end of the innermost piece that starts at s[i]. It must be called for the pieces of a text in
// order, and open must be zero before the first one.
func (list Stages) PieceEnd(s []byte, i int, open *OpenPieces) int {
	from, limit := 0, len(s)
	for k := range list {
		o := &open[k]
		if o.end <= i {
			o.around.From = from
			o.begin, o.end = i, list[k].pieceEnd(s[:limit], i, &o.around)
		}
		from, limit = o.begin, o.end
	}
	return limit
}

// splitStages is Split for stages.
func (sp *Splitter) splitStages(s []byte, i int, w *Batch) (n, end int) {
	if i == 0 {
		clear(w.open[:len(sp.stages)])
	}
	for n < BatchSize && i < len(s) {
		i = sp.stages.PieceEnd(s, i, &w.open)
		w.Ends[n] = int32(i)
		n++
	}
	return n, i
}
