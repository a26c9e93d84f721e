package simulation

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"loaderd/packonline"
)

// watch evaluates the rows that a packer emits.
type watch struct {
	result    *Result
	documents []int32  // their lengths
	ages      []uint32 // of each document, until its last piece is emitted
	whole     []bool   // of each document, whether it is emitted in one piece
	shares    shares
	sources   *bySource // nil without a mixture
	each      Sequence

	// Atoms that are parts of a row are joined to rows in order of emission, per bucket.
	parts   int                  // per row; 1 if the packer emits whole rows
	wait    int                  // maximum wait of a row for parts, in documents
	bounded bool                 // whether wait applies
	started [][]packonline.Piece // per bucket, the incomplete row
	have    []int                // its number of parts
	since   []int                // number of the last document at the emission of its first part
	missing int64                // slots of the last rows without a part
}

func newWatch(c packonline.Config, documents []int32, below int, each Sequence) *watch {
	w := &watch{result: &Result{Method: c.Method}, documents: documents, ages: make([]uint32, len(documents)),
		whole:  make([]bool, len(documents)),
		shares: newShares(below), each: each, parts: 1}
	if c.Atom > 0 && c.Atom < 1 {
		w.parts = int(1 / c.Atom)
	}
	for _, l := range c.Buckets {
		w.result.Buckets = append(w.result.Buckets, Bucket{Length: l})
	}
	w.wait, w.bounded = c.AtomWait()
	w.started, w.have, w.since = make([][]packonline.Piece, len(c.Buckets)), make([]int, len(c.Buckets)),
		make([]int, len(c.Buckets))
	return w
}

// take evaluates the emitted rows and clears out.
func (w *watch) take(out *packonline.Rows) error {
	defer out.Reset()
	for i := range out.Len() {
		length, pieces, ages := out.Row(i)
		w.result.Pieces += int64(len(pieces))
		now := int(pieces[0].Doc) + int(ages[0]) // documents are numbered in order of arrival
		for k, x := range pieces {
			w.ages[x.Doc] = max(w.ages[x.Doc], ages[k])
			w.whole[x.Doc] = w.whole[x.Doc] || x.Length == w.documents[x.Doc]
			w.result.AttentionCost += float64(x.Length) * float64(x.Length)
		}
		b := slices.IndexFunc(w.result.Buckets, func(b Bucket) bool { return b.Length == int(length)*w.parts })
		if w.parts > 1 {
			if err := w.overdue(now - 1); err != nil {
				return err
			}
			if w.have[b] == 0 {
				w.since[b] = now
			}
			w.started[b] = append(w.started[b], pieces...)
			if w.have[b]++; w.have[b] < w.parts {
				continue
			}
			pieces = w.started[b]
		}
		if err := w.row(b, pieces, now); err != nil {
			return err
		}
	}
	return nil
}

// overdue pads rows that had waited for parts for the maximum number of documents when document now was added.
func (w *watch) overdue(now int) error {
	for b, have := range w.have {
		if have > 0 && w.bounded && now-w.since[b] >= w.wait {
			if err := w.pad(b, w.since[b]+w.wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// pad completes the row of bucket b with padding. now is the number of the last document at that time.
func (w *watch) pad(b, now int) error {
	w.missing += int64((w.parts - w.have[b]) * w.result.Buckets[b].Length / w.parts)
	return w.row(b, w.started[b], now)
}

// row counts a row of bucket b and passes it to each. now is the number of the last document when the row was
// complete.
func (w *watch) row(b int, pieces []packonline.Piece, now int) error {
	var tokens, short int64
	for _, x := range pieces {
		tokens += int64(x.Length)
		if int(w.documents[x.Doc]) < w.shares.below {
			short += int64(x.Length)
		}
		if w.parts > 1 { // packed parts have waited for the row's other parts
			w.ages[x.Doc] = max(w.ages[x.Doc], uint32(now)-uint32(x.Doc))
		}
	}
	w.shares.count(tokens, short)
	if w.sources != nil {
		w.sources.count(w.result.Buckets[b].Length, pieces)
	}
	w.started[b], w.have[b] = w.started[b][:0], 0
	bucket := &w.result.Buckets[b]
	bucket.Sequences++
	w.result.AttentionCostUnmasked += float64(bucket.Length) * float64(bucket.Length)
	if w.each == nil {
		return nil
	}
	return w.each(bucket.Length, pieces)
}

// Lines returns a Sequence that writes sequences in the format of Run.
func Lines(placements io.Writer) Sequence {
	return lines(placements, func(b []byte, document uint64) []byte { return strconv.AppendUint(b, document, 10) })
}

// lines is Lines with document names that appendName appends.
func lines(placements io.Writer, appendName func(b []byte, document uint64) []byte) Sequence {
	var line []byte
	return func(length int, pieces []packonline.Piece) error {
		line = strconv.AppendInt(line[:0], int64(length), 10)
		separator := byte('\t')
		for _, x := range pieces {
			line = appendName(append(line, separator), x.Doc)
			line = strconv.AppendInt(append(line, ':'), int64(x.Start), 10)
			line = strconv.AppendInt(append(line, ':'), int64(x.Length), 10)
			separator = ' '
		}
		line = append(line, '\n')
		if _, err := placements.Write(line); err != nil {
			return fmt.Errorf("write placements: %w", err)
		}
		return nil
	}
}

// end pads rows with missing parts and summarizes the ages.
func (w *watch) end() error {
	r := w.result
	last := len(w.documents) - 1
	if err := w.overdue(last); err != nil {
		return err
	}
	for b, have := range w.have {
		if have > 0 {
			if err := w.pad(b, last); err != nil {
				return err
			}
		}
	}
	r.Sample = w.shares.sample()
	if w.sources != nil {
		r.Sources = w.sources.results(w.ages)
	}
	for i, a := range w.ages {
		r.AgeMax = max(r.AgeMax, a)
		if !w.whole[i] {
			r.NotWhole++
		}
	}
	r.ages = make([]int64, int(r.AgeMax)+1)
	for _, a := range w.ages {
		r.ages[a]++
	}
	r.AgeMedian = r.AgeQuantile(0.5)
	return nil
}

func (w *watch) sequences() (n int64) {
	for _, b := range w.result.Buckets {
		n += b.Sequences
	}
	return n
}
