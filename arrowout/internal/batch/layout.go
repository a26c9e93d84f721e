package batch

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/loader/assembly"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// layout is one batch with its attention segments. If the run, or the row's source, trains across documents, a row is
// one segment; otherwise each piece is one. Segments are contiguous from the row's first token, and padding follows
// the last.
type layout struct {
	*assembly.Batch
	sources  *Sources
	segments [][]int32       // lengths in tokens, for every row
	buffers  *messageBuffers // memory for the columns
}

func newLayout(b *assembly.Batch, s *Sources, memory *messageBuffers) (layout, error) {
	if len(b.Pieces) != b.Rows {
		return layout{}, fmt.Errorf("assemble step %d: %d piece lists for %d rows", b.Step, len(b.Pieces), b.Rows)
	}
	l := layout{Batch: b, sources: s, segments: make([][]int32, b.Rows), buffers: memory}
	n := 0
	for _, row := range b.Pieces {
		n += len(row)
	}
	flat := make([]int32, 0, n)
	for i, row := range b.Pieces {
		used, from, whole := int32(0), len(flat), s.isOneSegment(row)
		for _, p := range row {
			used += p.Length
			if p.Length < 1 || used < 0 || int(used) > b.Bucket {
				return layout{}, fmt.Errorf("assemble step %d: the pieces of row %d do not fit %d tokens", b.Step,
					b.First+i, b.Bucket)
			}
			if !whole {
				flat = append(flat, p.Length)
			}
		}
		if whole && used > 0 {
			flat = append(flat, used)
		}
		l.segments[i] = flat[from:len(flat):len(flat)]
	}
	return l, nil
}

// eachSegment calls f for every segment of row i, in order, with the segment's slots of buf, which has one value per
// slot. Then it calls pad with the slots of padding, possibly none.
func eachSegment[T any](l layout, i int, buf []T, f func(segment int, slots []T), pad func(slots []T)) {
	buf = buf[i*l.Bucket : (i+1)*l.Bucket]
	for s, n := range l.segments[i] {
		f(s, buf[:n])
		buf = buf[n:]
	}
	pad(buf)
}

func inputIDs(l layout) (arrow.ArrayData, error) {
	ids := l.buffers.int32s(l.Rows * l.Bucket)
	l.WriteIDs(ids)
	return slotList(l, arrow.PrimitiveTypes.Int32, arrow.Int32Traits.CastToBytes(ids)), nil
}

func narrowIDs(l layout) (arrow.ArrayData, error) {
	ids := l.buffers.uint16s(l.Rows * l.Bucket)
	if !l.WriteNarrowIDs(ids) {
		return nil, fmt.Errorf("encode step %d: a token id does not fit uint16", l.Step)
	}
	return slotList(l, arrow.PrimitiveTypes.Uint16, arrow.Uint16Traits.CastToBytes(ids)), nil
}

func segmentIDs(l layout) (arrow.ArrayData, error) {
	ids := l.buffers.uint16s(l.Rows * l.Bucket)
	for i := range l.Rows {
		if n := len(l.segments[i]); n >= uint16Limit {
			return nil, tooManySegmentsError(n)
		}
		eachSegment(l, i, ids, func(s int, slots []uint16) {
			fill(slots, uint16(s+1))
		}, func(slots []uint16) { clear(slots) })
	}
	return slotList(l, arrow.PrimitiveTypes.Uint16, arrow.Uint16Traits.CastToBytes(ids)), nil
}

func positionIDs(l layout) (arrow.ArrayData, error) {
	ids := l.buffers.int32s(l.Rows * l.Bucket)
	for i := range l.Rows {
		eachSegment(l, i, ids, func(_ int, slots []int32) { fillPositions(slots) }, fillPositions)
	}
	return slotList(l, arrow.PrimitiveTypes.Int32, arrow.Int32Traits.CastToBytes(ids)), nil
}

// ignoredLabel is the label of padding and of tokens without a loss. It is the default ignore_index of PyTorch's cross
// entropy.
const ignoredLabel = -100

func labels(l layout) (arrow.ArrayData, error) {
	ids := l.buffers.int32s(l.Rows * l.Bucket)
	l.WriteIDs(ids)
	for i := range l.Rows {
		eachSegment(l, i, ids, func(int, []int32) {}, func(slots []int32) { fill(slots, ignoredLabel) })
		l.eachMasked(i, 0, int32(l.Bucket), func(start, end int32) { fill(ids[i*l.Bucket:][start:end], ignoredLabel) })
	}
	return slotList(l, arrow.PrimitiveTypes.Int32, arrow.Int32Traits.CastToBytes(ids)), nil
}

// eachMasked calls f for the runs without a loss among n tokens of row i from start on.
func (l layout) eachMasked(i int, start, n int32, f func(start, end int32)) {
	if l.Loss != nil {
		l.Loss[i].VisitMasked(packonline.Piece{Start: start, Length: n}, f)
	}
}

// countMasked returns how many of n tokens of row i from start on have no loss.
func (l layout) countMasked(i int, start, n int32) (masked int64) {
	l.eachMasked(i, start, n, func(start, end int32) { masked += int64(end - start) })
	return masked
}

// lossRuns returns, for every row, the lengths of alternating runs of tokens with and without a loss, starting with a
// run that has one. The runs end where padding starts.
func lossRuns(l layout) (arrow.ArrayData, error) {
	var runs []int32
	offsets := make([]int32, 1, l.Rows+1)
	for i, pieces := range l.Pieces {
		if l.Loss != nil && l.Loss[i] != nil {
			runs = append(runs, l.Loss[i]...)
		} else {
			used := int32(0)
			for _, p := range pieces {
				used += p.Length
			}
			runs = append(runs, used)
		}
		offsets = append(offsets, int32(len(runs)))
	}
	return listData(arrow.ListOf(arrow.PrimitiveTypes.Int32), offsets, arrayData(arrow.PrimitiveTypes.Int32, len(runs),
		arrow.Int32Traits.CastToBytes(runs))), nil
}

// lossWeights returns the loss weights of the pieces.
func lossWeights(l layout) (arrow.ArrayData, error) {
	weight := func(row, piece int) float32 {
		if l.Weights == nil {
			return 1
		}
		return l.Weights[row][piece]
	}
	return pieceList(l, arrow.PrimitiveTypes.Float32, weight, arrow.Float32Traits.CastToBytes), nil
}

func cuSeqlens(l layout) (arrow.ArrayData, error) {
	var ends []int32
	offsets := make([]int32, 1, l.Rows+1)
	for _, segments := range l.segments {
		end := int32(0)
		ends = append(ends, end)
		for _, n := range segments {
			end += n
			ends = append(ends, end)
		}
		offsets = append(offsets, int32(len(ends)))
	}
	return listData(arrow.ListOf(arrow.PrimitiveTypes.Int32), offsets, arrayData(arrow.PrimitiveTypes.Int32, len(ends),
		arrow.Int32Traits.CastToBytes(ends))), nil
}

func documents(l layout) (arrow.ArrayData, error) { return l.documents(pieceType), nil }

// innerDocuments returns the documents of the pieces if messages may hold several; start counts the document's
// tokens.
func innerDocuments(l layout) (arrow.ArrayData, error) { return l.documents(pieceOfType), nil }

func (l layout) documents(typ *arrow.StructType) arrow.ArrayData {
	var sequences []uint64
	var indices, starts, lengths []int32
	offsets := make([]int32, 1, l.Rows+1)
	for i, pieces := range l.Pieces {
		for k, p := range pieces {
			in := assembly.PieceDocument{}
			if l.PieceDocuments != nil {
				in = l.PieceDocuments[i][k]
			}
			sequences, starts, lengths = append(sequences, plan.RefSequence(p.Doc)), append(starts, p.Start-in.Start),
				append(lengths, p.Length)
			if typ == pieceOfType {
				indices = append(indices, in.Index)
			}
		}
		offsets = append(offsets, int32(len(sequences)))
	}
	n := len(sequences)
	fields := []arrow.ArrayData{
		arrayData(arrow.PrimitiveTypes.Uint64, n, arrow.Uint64Traits.CastToBytes(sequences)),
		arrayData(arrow.PrimitiveTypes.Int32, n, arrow.Int32Traits.CastToBytes(starts)),
		arrayData(arrow.PrimitiveTypes.Int32, n, arrow.Int32Traits.CastToBytes(lengths)),
	}
	if typ == pieceOfType {
		fields = append([]arrow.ArrayData{arrayData(arrow.PrimitiveTypes.Int32, n, arrow.Int32Traits.CastToBytes(indices))},
			fields...)
	}
	return listData(arrow.ListOf(typ), offsets, array.NewData(typ, n, []*memory.Buffer{nil}, fields, 0, 0))
}

// sourceNumbers returns the source numbers of the pieces.
func sourceNumbers(l layout) (arrow.ArrayData, error) {
	source := func(row, piece int) uint16 { return uint16(plan.RefSource(l.Pieces[row][piece].Doc)) }
	return pieceList(l, arrow.PrimitiveTypes.Uint16, source, arrow.Uint16Traits.CastToBytes), nil
}

// pieceList returns a list column with one value for every piece of every row.
func pieceList[T any](l layout, typ arrow.DataType, value func(row, piece int) T,
	bytes func([]T) []byte) arrow.ArrayData {
	var all []T
	offsets := make([]int32, 1, l.Rows+1)
	for i, pieces := range l.Pieces {
		for k := range pieces {
			all = append(all, value(i, k))
		}
		offsets = append(offsets, int32(len(all)))
	}
	return listData(arrow.ListOf(typ), offsets, arrayData(typ, len(all), bytes(all)))
}

// slotList returns a list column with one value for every slot of every row.
func slotList(l layout, typ arrow.DataType, b []byte) arrow.ArrayData {
	offsets := make([]int32, l.Rows+1)
	for i := range offsets {
		offsets[i] = int32(i * l.Bucket)
	}
	return listData(arrow.ListOf(typ), offsets, arrayData(typ, l.Rows*l.Bucket, b))
}

func listData(typ arrow.DataType, offsets []int32, items arrow.ArrayData) arrow.ArrayData {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return array.NewData(typ, len(offsets)-1, buffers, []arrow.ArrayData{items}, 0, 0)
}

func arrayData(typ arrow.DataType, n int, b []byte) arrow.ArrayData {
	return array.NewData(typ, n, []*memory.Buffer{nil, memory.NewBufferBytes(b)}, nil, 0, 0)
}

// fill sets all slots to v by repeated doubling, which is several times faster than slot by slot.
func fill[T any](slots []T, v T) {
	if len(slots) == 0 {
		return
	}
	slots[0] = v
	for n := 1; n < len(slots); n *= 2 {
		copy(slots[n:], slots[:n])
	}
}

func fillPositions(slots []int32) {
	for i := range slots {
		slots[i] = int32(i)
	}
}
