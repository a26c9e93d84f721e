package planner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/shuffle"
)

// queues hold the packed rows of each bucket until a step takes them. A step takes rows of one bucket. When more than
// Backlog full steps wait, one of them is emitted. Its bucket is drawn among the buckets that have a full step, with
// a probability proportional to the tokens queued there (Beyond Fixed Length, section 4). All rows of a bucket are
// emitted eventually, so in the long run each bucket has its share of the steps. The draw only decides the order,
// which would otherwise follow the arrival of long documents.
//
//   - invariant: at most Backlog full steps wait, and less than a step of each bucket beyond them.
//   - invariant: with a MaxWait, no row waits while more documents than that arrive. The step with such a row is
//     emitted first. If its bucket has no full step, rows of padding complete it. So a rare bucket holds back neither
//     memory nor the low watermark.
type queues struct {
	buckets []queue
	backlog int
	maxWait int64
	key     shuffle.Key
	draws   uint64
}

// queue holds the rows of one bucket, oldest first.
type queue struct {
	length       int32
	stepRows     int   // of the next step
	steps        int64 // emitted since the last change of the row lengths
	tokens       int64
	waitingRows  []queuedRow
	nextPortions []portion // of the next step, if it has been computed: see sourceSet.head
}

type queuedRow struct {
	pieces  []packonline.Piece
	arrived int64 // documents that had arrived when the row was queued
}

// newQueues returns the queues of rows with the given lengths.
func newQueues(c runconfig.Config, lengths []int) queues {
	q := queues{backlog: c.Steps.Backlog, maxWait: int64(c.Steps.MaxWait), key: shuffle.NewKey(c.Seed, "bucket")}
	if len(lengths) == 1 {
		q.backlog = 0 // with one bucket nothing is drawn
	}
	for _, length := range lengths {
		q.buckets = append(q.buckets, queue{length: int32(length), stepRows: 1})
	}
	return q
}

// setStepRows sets the rows of the next step per bucket.
func (q *queues) setStepRows(rows []int) {
	for i := range q.buckets {
		q.buckets[i].stepRows, q.buckets[i].nextPortions = rows[i], q.buckets[i].nextPortions[:0]
	}
}

// addRow appends a row of a bucket. now is the number of documents that have arrived.
func (q *queues) addRow(bucket int, pieces []packonline.Piece, now int64) {
	b := &q.buckets[bucket]
	b.waitingRows = append(b.waitingRows, queuedRow{pieces, now})
	b.tokens += plan.RowTokens(pieces)
}

// chooseQueue returns the bucket that emits the next step if more than keep full steps wait, else nil. With last, an
// incomplete step counts as full.
func (q *queues) chooseQueue(keep int, last bool) *queue {
	full, weight := 0, uint64(0)
	for i := range q.buckets {
		if b := &q.buckets[i]; b.hasStep(last) {
			full += max(b.fullSteps(), 1)
			weight += b.weight()
		}
	}
	if full <= keep {
		return nil
	}
	return q.drawQueue(weight, last)
}

// drawQueue draws among the buckets with a full step, whose weights add up to weight.
func (q *queues) drawQueue(weight uint64, last bool) *queue {
	at := uint64(q.key.IntN(q.draws, int(weight)))
	q.draws++
	for i := range q.buckets {
		b := &q.buckets[i]
		if !b.hasStep(last) {
			continue
		}
		if w := b.weight(); at >= w {
			at -= w
			continue
		}
		return b
	}
	panic("loader: weights of buckets do not add up")
}

// overdueQueue returns the bucket of the oldest row if the next document would make that row exceed its maximum wait,
// else nil.
func (q *queues) overdueQueue(now int64) *queue {
	if q.maxWait == 0 {
		return nil
	}
	var oldest *queue
	for i := range q.buckets {
		b := &q.buckets[i]
		if len(b.waitingRows) > 0 && now-b.waitingRows[0].arrived >= q.maxWait &&
			(oldest == nil || b.waitingRows[0].arrived < oldest.waitingRows[0].arrived) {
			oldest = b
		}
	}
	return oldest
}

// fullSteps returns the number of full steps that wait.
func (b *queue) fullSteps() int { return len(b.waitingRows) / b.stepRows }

// hasStep reports whether a full step waits or, with last, any row.
func (b *queue) hasStep(last bool) bool { return b.fullSteps() > 0 || last && len(b.waitingRows) > 0 }

// weight is at least 1, because rows of padding hold no tokens.
func (b *queue) weight() uint64 { return uint64(b.tokens) + 1 }

// takeStep removes the rows of the next step. Rows without pieces replace missing rows.
func (b *queue) takeStep() [][]packonline.Piece {
	b.steps++
	rows := make([][]packonline.Piece, b.stepRows)
	n := min(b.stepRows, len(b.waitingRows))
	for i, r := range b.waitingRows[:n] {
		rows[i] = r.pieces
		b.tokens -= plan.RowTokens(r.pieces)
	}
	left := copy(b.waitingRows, b.waitingRows[n:])
	clear(b.waitingRows[left:])
	b.waitingRows, b.nextPortions = b.waitingRows[:left], b.nextPortions[:0]
	return rows
}

// rowCount returns the number of rows that wait in all buckets.
func (q *queues) rowCount() (n int) {
	for i := range q.buckets {
		n += len(q.buckets[i].waitingRows)
	}
	return n
}

// visitRows visits the rows that wait.
func (q *queues) visitRows(f func([]packonline.Piece)) {
	for i := range q.buckets {
		for _, r := range q.buckets[i].waitingRows {
			f(r.pieces)
		}
	}
}

// appendState writes the number of draws. For each bucket it writes the number of its steps, the number of queued
// rows and each row. The number of documents that had arrived when the row was queued precedes the row.
func (q *queues) appendState(b []byte, previous *uint64) []byte {
	b = binary.AppendUvarint(b, q.draws)
	for i := range q.buckets {
		b = binary.AppendUvarint(b, uint64(q.buckets[i].steps))
		b = binary.AppendUvarint(b, uint64(len(q.buckets[i].waitingRows)))
		for _, r := range q.buckets[i].waitingRows {
			b = binary.AppendUvarint(b, uint64(r.arrived))
			b = codec.AppendPieces(b, r.pieces, previous)
		}
	}
	return b
}

// restoreState reads what appendState wrote after now documents. resized reports that the rows of steps have changed:
// then a queue may hold the rows of larger steps that a fork inherits before it.
func (q *queues) restoreState(r *codec.Cursor, previous *uint64, now int64, resized bool) {
	q.draws = r.Uvarint()
	full := 0
	for i := range q.buckets {
		b := &q.buckets[i]
		b.waitingRows, b.tokens, b.nextPortions = b.waitingRows[:0], 0, b.nextPortions[:0]
		b.steps = int64(r.BoundedUvarint(math.MaxInt64))
		last := int64(0)
		most := uint64(b.stepRows) * (uint64(q.backlog) + 1)
		if resized {
			most = uint64(len(r.Buf))
		}
		for range r.BoundedUvarint(most) {
			arrived := int64(r.BoundedUvarint(uint64(now)))
			pieces := r.Pieces(previous)
			checkRow(r, pieces, int64(b.length))
			switch {
			case r.Err != nil:
				return
			case arrived < last:
				r.Fail(errors.New("rows are not in the order of their arrival"))
			case q.maxWait > 0 && now-arrived >= q.maxWait:
				r.Fail(fmt.Errorf("a row has waited for %d documents, the bound is %d", now-arrived, q.maxWait))
			}
			last = arrived
			b.waitingRows = append(b.waitingRows, queuedRow{pieces, arrived})
			b.tokens += plan.RowTokens(pieces)
		}
		full += b.fullSteps()
	}
	if full > q.backlog && !resized && r.Err == nil {
		r.Fail(fmt.Errorf("%d full steps wait, at most %d can", full, q.backlog))
	}
}

// capacity returns how many rows can wait: Backlog full steps, and less than a step of each bucket.
func (q *queues) capacity() (rows int) {
	most := 0
	for i := range q.buckets {
		rows += q.buckets[i].stepRows - 1
		most = max(most, q.buckets[i].stepRows)
	}
	return rows + q.backlog*most
}

// QueueStat describes the rows of one bucket that wait for a step.
type QueueStat struct {
	Bucket   int   `json:"bucket"` // length of a row in tokens
	Steps    int64 `json:"steps"`  // planned since the last change of the row lengths
	Rows     int   `json:"rows"`   // queued
	StepRows int   `json:"of"`     // rows per step
	Tokens   int64 `json:"tokens"` // in the queued rows
	Wait     int64 `json:"wait"`   // documents that have arrived since the oldest of the rows was queued
}

func (q *queues) stats(now int64) []QueueStat {
	out := make([]QueueStat, len(q.buckets))
	for i := range q.buckets {
		b := &q.buckets[i]
		out[i] = QueueStat{Bucket: int(b.length), Steps: b.steps, Rows: len(b.waitingRows), StepRows: b.stepRows,
			Tokens: b.tokens}
		if len(b.waitingRows) > 0 {
			out[i].Wait = now - b.waitingRows[0].arrived
		}
	}
	return out
}
