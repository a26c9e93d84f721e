package pretokenize

import "loaderd/tokenizer/internal/pattern"

// stage cuts a text into pieces: those that its pattern matches, and what is between them.
type stage struct {
	pattern *pattern.Pattern // nil stands for trailingPattern
	merged  bool             // matches that follow one another are one piece
}

// end is the end of the piece that begins at s[i], i < len(s). Where a pattern matches nothing a piece begins too; the
// reference goes on behind the next character.
func (st *stage) end(s []byte, i int, a *pattern.Around) int {
	if st.pattern == nil {
		return trailingEnd(s, i)
	}
	end := st.pattern.MatchIn(s, i, a)
	if end <= i {
		return st.pattern.Skip(s, i, a)
	}
	for st.merged && end < len(s) {
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

// Stages cut one within the pieces of the other. A piece is a text of its own to the stages behind it.
type Stages []stage

// OpenPieces are, for each stage, the piece that is being cut further.
type OpenPieces [MaxStages]openPiece

type openPiece struct {
	begin, end int
	around     pattern.Around // of the text that the stage cuts
}

// End is the end of the innermost piece that begins at s[i]. Of a text the pieces are asked for in order, and before
// the first one open is zero.
func (list Stages) End(s []byte, i int, open *OpenPieces) int {
	from, limit := 0, len(s)
	for k := range list {
		o := &open[k]
		if o.end <= i {
			o.around.From = from
			o.begin, o.end = i, list[k].end(s[:limit], i, &o.around)
		}
		from, limit = o.begin, o.end
	}
	return limit
}

// splitStages is split for stages.
func (sp *Splitter) splitStages(s []byte, i int, w *Batch) (n, end int) {
	if i == 0 {
		clear(w.open[:len(sp.stages)])
	}
	for n < BatchSize && i < len(s) {
		i = sp.stages.End(s, i, &w.open)
		w.Ends[n] = int32(i)
		n++
	}
	return n, i
}
