package planner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// losses holds the loss runs of buffered documents, for documents that have tokens without a loss. Most runs have
// none.
type losses struct {
	runs  map[uint64]plan.LossRuns // keyed by the document's name
	limit int                      // number of documents at which documents that are no longer buffered are removed
}

// minLosses is the minimum number of documents before a sweep.
const minLosses = 4096

// add stores the loss runs of a document that is buffered from now on.
func (l *losses) add(name uint64, runs plan.LossRuns) {
	if runs == nil {
		return
	}
	if l.runs == nil {
		l.runs = map[uint64]plan.LossRuns{}
	}
	l.runs[name] = runs
}

// repeatedFlag marks the name of a piece whose tokens all occur with their loss in another piece of the document. In
// this piece they have no loss. The rest of its window follows it, and a plan joins the two into one piece.
const repeatedFlag = 1 << 63

// continuesRepeat reports whether x continues the repeated tokens before it.
func continuesRepeat(before, x packonline.Piece) bool {
	return before.Doc == x.Doc|repeatedFlag && before.Doc != x.Doc && before.Start+before.Length == x.Start
}

// markRepeated marks the first n tokens of a row's pieces as repeated.
func markRepeated(row []packonline.Piece, n int32) []packonline.Piece {
	if n <= 0 {
		return row
	}
	out := make([]packonline.Piece, 0, len(row)+1)
	for _, x := range row {
		if k := min(n, x.Length); k > 0 {
			out = append(out, packonline.Piece{Doc: x.Doc | repeatedFlag, Start: x.Start, Length: k})
			x.Start, x.Length, n = x.Start+k, x.Length-k, n-k
		}
		if x.Length > 0 {
			out = append(out, x)
		}
	}
	return out
}

// lossTokens returns how many tokens of a buffered piece have a loss.
func (l *losses) lossTokens(x packonline.Piece) int32 {
	if x.Doc&repeatedFlag != 0 {
		return 0
	}
	return l.runs[x.Doc].LossTokens(x)
}

// countMasked counts the tokens of a step that have no loss, before its repeats are joined. whole reports whether a row
// is one attention segment.
func (l *losses) countMasked(s *plan.Step, once bool, whole func([]packonline.Piece) bool) {
	s.Masked, s.MaskedSegmentStarts = 0, 0
	if len(l.runs) == 0 && !once {
		return
	}
	for _, row := range s.Rows {
		one := len(row) > 1 && whole(row)
		for k, x := range row {
			masked, first := x.Length, true
			if x.Doc&repeatedFlag == 0 {
				masked, first = 0, false
				l.runs[x.Doc].VisitMasked(x, func(start, end int32) {
					masked += end - start
					first = first || start == x.Start
				})
			}
			s.Masked += int64(masked)
			if first && (k == 0 || !one && !continuesRepeat(row[k-1], x)) {
				s.MaskedSegmentStarts++
			}
		}
	}
}

// joinRepeats joins repeated tokens with the piece that continues them, and records which pieces begin with such
// tokens.
func joinRepeats(s *plan.Step) {
	s.Repeats = nil
	for i, row := range s.Rows {
		out, before := row[:0], packonline.Piece{}
		for _, x := range row {
			if continuesRepeat(before, x) {
				out[len(out)-1].Length += x.Length
				before = x
				continue
			}
			before = x
			if x.Doc&repeatedFlag != 0 {
				s.Repeats = append(s.Repeats, plan.Repeat{Row: i, Piece: len(out), Tokens: x.Length})
				x.Doc &^= repeatedFlag
			}
			out = append(out, x)
		}
		s.Rows[i] = out
	}
}

// isSweepDue reports whether a sweep is due.
func (l *losses) isSweepDue() bool { return len(l.runs) >= max(l.limit, minLosses) }

// sweep removes the documents that are no longer buffered.
func (l *losses) sweep(waiting []uint64) {
	waits := make(map[uint64]bool, len(waiting))
	for _, d := range waiting {
		waits[d] = true
	}
	maps.DeleteFunc(l.runs, func(d uint64, _ plan.LossRuns) bool { return !waits[d] })
	l.limit = 2 * len(l.runs)
}

// appendState writes the number of buffered documents that have loss runs. For each it writes the distance from the
// document before, the number of its runs and the runs.
func (l *losses) appendState(b []byte, waits func() []uint64) []byte {
	if len(l.runs) == 0 {
		return append(b, 0)
	}
	waiting := slices.DeleteFunc(waits(), func(d uint64) bool { return l.runs[d] == nil })
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	b = binary.AppendUvarint(b, uint64(len(waiting)))
	before := uint64(0)
	for _, d := range waiting {
		b = binary.AppendUvarint(b, d-before)
		before = d
		b = binary.AppendUvarint(b, uint64(len(l.runs[d])))
		for _, n := range l.runs[d] {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// readLosses reads what appendState wrote.
func readLosses(r *codec.Cursor, waiting func() []uint64) (l losses) {
	n := r.BoundedUvarint(uint64(len(r.Buf)) / 4)
	if n == 0 {
		return l
	}
	waits := map[uint64]bool{}
	for _, d := range waiting() {
		waits[d] = true
	}
	document := uint64(0)
	for range n {
		d := r.Uvarint()
		document += d
		if runs := readLossRuns(r); r.Err == nil && (d == 0 || !waits[document]) {
			r.Fail(fmt.Errorf("the loss of document %d, of which nothing waits", document))
		} else if r.Err == nil {
			l.add(document, runs)
		}
		if r.Err != nil {
			return losses{}
		}
	}
	return l
}

func readLossRuns(r *codec.Cursor) (runs plan.LossRuns) {
	sum := uint64(0)
	for i := range r.BoundedUvarint(uint64(len(r.Buf))) {
		n := r.BoundedUvarint(math.MaxInt32)
		if sum += n; r.Err == nil && (n == 0 && i > 0 || sum > math.MaxInt32) {
			r.Fail(fmt.Errorf("a run of %d tokens behind %d others", n, i))
		}
		if r.Err != nil {
			return nil
		}
		runs = append(runs, int32(n))
	}
	if len(runs) < 2 {
		r.Fail(errors.New("a document with one run or none"))
	}
	return runs
}

// isOneSegment reports whether a buffered row is one attention segment, rather than one per piece. A source with its
// own packing decides this for its rows.
func (p *Planner) isOneSegment(row []packonline.Piece) bool {
	attention := p.config.Attention
	if p.sources != nil && len(row) > 0 {
		attention = p.config.SourceAttention(p.sources.infos[plan.RefSource(p.sources.refOf(row[0].Doc))].Config)
	}
	return attention == runconfig.AttentionRow
}
