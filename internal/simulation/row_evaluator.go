package simulation

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"loaderd/packonline"
)

// rowEvaluator evaluates the rows that a packer emits.
type rowEvaluator struct {
	result       *Result
	documents    []int32  // their lengths
	ages         []uint32 // of each document, until its last piece is emitted
	emittedWhole []bool   // of each document, whether it is emitted in one piece
	shares       shareBins
	sources      *sourceCounter // nil without a mixture
	onRow        RowFunc

	// Atoms that are parts of a row are joined to rows in order of emission, per bucket.
	partsPerRow  int                  // per row; 1 if the packer emits whole rows
	maxWait      int                  // maximum wait of a row for parts, in documents
	bounded      bool                 // whether wait applies
	incomplete   [][]packonline.Piece // per bucket, the incomplete row
	partCounts   []int                // its number of parts
	firstPart    []int                // number of the last document at the emission of its first part
	missingSlots int64                // slots of the last rows without a part
}

func newRowEvaluator(c packonline.Config, documents []int32, below int, each RowFunc) *rowEvaluator {
	w := &rowEvaluator{result: &Result{Method: c.Method}, documents: documents, ages: make([]uint32, len(documents)),
		emittedWhole: make([]bool, len(documents)),
		shares:       newShareBins(below), onRow: each, partsPerRow: 1}
	if c.Atom > 0 && c.Atom < 1 {
		w.partsPerRow = int(1 / c.Atom)
	}
	for _, l := range c.Buckets {
		w.result.Buckets = append(w.result.Buckets, Bucket{Length: l})
	}
	w.maxWait, w.bounded = c.AtomWait()
	w.incomplete, w.partCounts, w.firstPart = make([][]packonline.Piece, len(c.Buckets)), make([]int, len(c.Buckets)),
		make([]int, len(c.Buckets))
	return w
}

// addRows evaluates the emitted rows and clears out.
func (w *rowEvaluator) addRows(out *packonline.Rows) error {
	defer out.Reset()
	for i := range out.Len() {
		length, pieces, ages := out.Row(i)
		w.result.Pieces += int64(len(pieces))
		now := int(pieces[0].Doc) + int(ages[0]) // documents are numbered in order of arrival
		for k, x := range pieces {
			w.ages[x.Doc] = max(w.ages[x.Doc], ages[k])
			w.emittedWhole[x.Doc] = w.emittedWhole[x.Doc] || x.Length == w.documents[x.Doc]
			w.result.AttentionCost += float64(x.Length) * float64(x.Length)
		}
		b := slices.IndexFunc(w.result.Buckets, func(b Bucket) bool { return b.Length == int(length)*w.partsPerRow })
		if w.partsPerRow > 1 {
			if err := w.padOverdue(now - 1); err != nil {
				return err
			}
			if w.partCounts[b] == 0 {
				w.firstPart[b] = now
			}
			w.incomplete[b] = append(w.incomplete[b], pieces...)
			if w.partCounts[b]++; w.partCounts[b] < w.partsPerRow {
				continue
			}
			pieces = w.incomplete[b]
		}
		if err := w.finishRow(b, pieces, now); err != nil {
			return err
		}
	}
	return nil
}

// padOverdue pads rows that had waited for parts for the maximum number of documents when document now was added.
func (w *rowEvaluator) padOverdue(now int) error {
	for b, have := range w.partCounts {
		if have > 0 && w.bounded && now-w.firstPart[b] >= w.maxWait {
			if err := w.padRow(b, w.firstPart[b]+w.maxWait); err != nil {
				return err
			}
		}
	}
	return nil
}

// padRow completes the row of bucket b with padding. now is the number of the last document at that time.
func (w *rowEvaluator) padRow(b, now int) error {
	w.missingSlots += int64((w.partsPerRow - w.partCounts[b]) * w.result.Buckets[b].Length / w.partsPerRow)
	return w.finishRow(b, w.incomplete[b], now)
}

// finishRow counts a row of bucket b and passes it to each. now is the number of the last document when the row was
// complete.
func (w *rowEvaluator) finishRow(b int, pieces []packonline.Piece, now int) error {
	var tokens, short int64
	for _, x := range pieces {
		tokens += int64(x.Length)
		if int(w.documents[x.Doc]) < w.shares.below {
			short += int64(x.Length)
		}
		if w.partsPerRow > 1 { // packed parts have waited for the row's other parts
			w.ages[x.Doc] = max(w.ages[x.Doc], uint32(now)-uint32(x.Doc))
		}
	}
	w.shares.add(tokens, short)
	if w.sources != nil {
		w.sources.addRow(w.result.Buckets[b].Length, pieces)
	}
	w.incomplete[b], w.partCounts[b] = w.incomplete[b][:0], 0
	bucket := &w.result.Buckets[b]
	bucket.Sequences++
	w.result.AttentionCostUnmasked += float64(bucket.Length) * float64(bucket.Length)
	if w.onRow == nil {
		return nil
	}
	return w.onRow(bucket.Length, pieces)
}

// LineWriter returns a Sequence that writes sequences in the format of Run.
func LineWriter(placements io.Writer) RowFunc {
	return newLineWriter(placements, func(b []byte, document uint64) []byte { return strconv.AppendUint(b, document, 10) })
}

// newLineWriter is Lines with document names that appendName appends.
func newLineWriter(placements io.Writer, appendName func(b []byte, document uint64) []byte) RowFunc {
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

// finish pads rows with missing parts and summarizes the ages.
func (w *rowEvaluator) finish() error {
	r := w.result
	last := len(w.documents) - 1
	if err := w.padOverdue(last); err != nil {
		return err
	}
	for b, have := range w.partCounts {
		if have > 0 {
			if err := w.padRow(b, last); err != nil {
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
		if !w.emittedWhole[i] {
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

func (w *rowEvaluator) sequences() (n int64) {
	for _, b := range w.result.Buckets {
		n += b.Sequences
	}
	return n
}
