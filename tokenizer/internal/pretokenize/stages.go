package pretokenize

import "loaderd/tokenizer/internal/pattern"

// stage cuts a text into pieces: those that its pattern matches, and what is between them.
type stage struct {
	pattern *pattern.Pattern // nil stands for trailingPattern
	merged  bool             // matches that follow one another are one piece
}

// end is the end of the piece that begins at s[i], i < len(s).
func (st *stage) end(s []byte, i int) int {
	if st.pattern == nil {
		return trailingEnd(s, i)
	}
	end := st.pattern.Match(s, i)
	if end < 0 {
		return st.pattern.Skip(s, i)
	}
	for st.merged && end < len(s) {
		more := st.pattern.Match(s, end)
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

// OpenPieces are, for each stage, the end of the piece that is being cut further.
type OpenPieces [MaxStages]int

// End is the end of the innermost piece that begins at s[i]. Of a text the pieces are asked for in order, and before the
// first one open is zero.
func (list Stages) End(s []byte, i int, open *OpenPieces) int {
	limit := len(s)
	for k := range list {
		if open[k] <= i {
			open[k] = list[k].end(s[:limit], i)
		}
		limit = open[k]
	}
	return limit
}

// splitStages is split for stages.
func (sp *Splitter) splitStages(s []byte, i int, w *Batch) (n, end int) {
	if i == 0 {
		w.open = OpenPieces{}
	}
	for n < BatchSize && i < len(s) {
		i = sp.stages.End(s, i, &w.open)
		w.Ends[n] = int32(i)
		n++
	}
	return n, i
}
