package docstream

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/internal/columnfile"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// Columns of a message that holds several documents, one per row. All columns but ids are optional and may hold
// nulls.
const (
	columnIDs    = "ids"    // list<int32>: the tokens
	columnID     = "id"     // string, also as a dictionary: the producer's id
	columnLoss   = "loss"   // list<bool>: which tokens have a loss, one value per id
	columnWeight = "weight" // float32 or float64: factor of the loss
)

// batchMemory bounds the memory, in bytes, for decompressing a message of size bytes. Token ids never compress by
// such a ratio.
func batchMemory(size int) int64 { return min(16*int64(size)+1<<20, 160<<20) }

// decodeBatch reads the documents of an Arrow IPC stream of record batches.
func (d decoder) decodeBatch(f headerFields, data []byte) ([]decodedDocument, *deadletter.Problem) {
	if !d.batches {
		return nil, newProblem(badContentType,
			"a message of %s holds several documents, and the run takes one of each: set documents.multiple_per_message",
			stream.TypeArrow)
	}
	if failed := d.checkTokenizer(f); failed != nil {
		return nil, failed
	}
	ipc, err := columnfile.NewArrowReaderLimit(bytes.NewReader(data), batchMemory(len(data)))
	if err != nil {
		return nil, unreadable(err)
	}
	out, tokens := []decodedDocument{}, 0
	for {
		record, err := ipc.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, unreadable(err)
		}
		var failed *deadletter.Problem
		if err := columnfile.Guard(func() error { out, failed = d.readBatch(out, record, &tokens); return nil }); err != nil {
			return nil, unreadable(err)
		}
		if failed != nil {
			return nil, failed
		}
	}
}

// unreadable returns the reason why a message is not Arrow data, on one line.
func unreadable(err error) *deadletter.Problem {
	const most = 300
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > most {
		line = line[:most] + "..."
	}
	return newProblem(badBatch, "%s", strings.ToValidUTF8(line, "\ufffd"))
}

// readBatch appends the documents of a record batch. tokens is the running total of the message, plus one per
// document.
func (d decoder) readBatch(out []decodedDocument, record arrow.Record,
	tokens *int) ([]decodedDocument, *deadletter.Problem) {
	var ids, losses *array.List
	var names, weights arrow.Array
	var more extraColumns
	for i, f := range record.Schema().Fields() {
		if n := len(record.Schema().FieldIndices(f.Name)); n > 1 {
			return nil, newProblem(badColumn, "%d columns are named %s", n, quoteValue(f.Name))
		}
		column, ok := record.Column(i), false
		switch f.Name {
		case columnIDs:
			if ids, ok = column.(*array.List); ok {
				_, ok = ids.ListValues().(*array.Int32)
			}
		case columnLoss:
			if losses, ok = column.(*array.List); ok {
				_, ok = losses.ListValues().(*array.Boolean)
			}
		case columnID:
			names, ok = column, hasValueType(f.Type, runconfig.MetaString)
		case columnWeight:
			weights = column
			ok = f.Type.ID() == arrow.FLOAT32 || f.Type.ID() == arrow.FLOAT64
		default:
			known, want := d.addColumn(&more, f.Name, column)
			if !known {
				return nil,
					newProblem(badColumn, "column %s is none of %s; declare other columns in the run's documents.columns and "+
						"documents.meta",
						quoteValue(f.Name), d.columnNames())
			}
			if want != "" {
				return nil, newProblem(badColumn, "column %s is %s: want %s", f.Name, f.Type, want)
			}
			ok = true
		}
		if !ok {
			return nil, newProblem(badColumn,
				"column %s is %s: want ids list<int32>, id string, loss list<bool>, weight float32 or float64", f.Name, f.Type)
		}
	}
	if ids == nil {
		return nil, newProblem(badColumn, "it has no column %s", columnIDs)
	}
	for i := range int(record.NumRows()) {
		doc := decodedDocument{}
		var failed *deadletter.Problem
		doc.tokens, failed = d.rowIDs(ids, i)
		if doc.bytes = idBytes * len(doc.tokens); failed == nil && losses != nil && !losses.IsNull(i) {
			doc.loss, failed = rowLoss(losses, i, len(doc.tokens))
		}
		if failed == nil && weights != nil && !weights.IsNull(i) {
			doc.weight, failed = rowWeight(weights, i)
		}
		if failed == nil {
			failed = d.addExtraValues(&doc, more, i)
		}
		if *tokens += len(doc.tokens) + 1; failed == nil && *tokens > plan.MaxPartTokens {
			failed = newProblem(tooLarge, "the documents up to this one have more than %d tokens", plan.MaxPartTokens)
		}
		if failed != nil {
			return nil, newProblem(failed.Reason, "document %d: %s", len(out), failed.Sentence)
		}
		if names != nil {
			name, _ := textAt(names, i)
			doc.id = strings.Clone(name) // name is in memory of the batch, which is released
		}
		out = append(out, doc)
	}
	return out, nil
}

// rowIDs returns the tokens of row i.
func (d decoder) rowIDs(ids *array.List, i int) ([]int32, *deadletter.Problem) {
	if ids.IsNull(i) {
		return nil, newProblem(badBatch, "%s is null", columnIDs)
	}
	from, to := ids.ValueOffsets(i)
	values := ids.ListValues().(*array.Int32)
	if int(to-from) > d.limit {
		return nil, newProblem(tooLarge, "%d tokens, a document may have %d", to-from, d.limit)
	}
	out := make([]int32, 0, to-from+1)
	for k := int(from); k < int(to); k++ {
		if values.IsNull(k) {
			return nil, newProblem(badBatch, "%s has a null at position %d", columnIDs, k-int(from))
		}
		if id := values.Value(k); id < 0 || int(id) >= d.vocab {
			return nil, newProblem(tokenOutOfRange, "id %d at position %d is outside the vocabulary of %d ids", id,
				k-int(from), d.vocab)
		}
		out = append(out, values.Value(k))
	}
	return out, nil
}

// rowLoss returns which tokens of row i have a loss.
func rowLoss(losses *array.List, i, tokens int) (plan.LossRuns, *deadletter.Problem) {
	from, to := losses.ValueOffsets(i)
	if int(to-from) != tokens {
		return nil, newProblem(badLoss, "%s has %d values, the document %d tokens", columnLoss, to-from, tokens)
	}
	values := losses.ListValues().(*array.Boolean)
	loss, lengths := true, []int32{0}
	for k := int(from); k < int(to); k++ {
		if values.IsNull(k) {
			return nil, newProblem(badLoss, "%s has a null at position %d", columnLoss, k-int(from))
		}
		if has := values.Value(k); has != loss {
			loss, lengths = has, append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	return plan.NewLossRuns(lengths), nil
}

func rowWeight(weights arrow.Array, i int) (*float32, *deadletter.Problem) {
	var f float64
	switch w := weights.(type) {
	case *array.Float32:
		f = float64(w.Value(i))
	case *array.Float64:
		f = w.Value(i)
	}
	w, ok := newWeight(f)
	if !ok {
		return nil, newProblem(badWeight, "%s is %v: want a finite number, 0 or more", columnWeight, f)
	}
	return w, nil
}
