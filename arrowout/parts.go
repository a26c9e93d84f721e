package arrowout

import (
	"encoding/json"

	"loaderd/loader/plan"
)

// part is a run of rows of a step that travels as one record batch.
type part struct{ first, rows int }

// split cuts rows [first, first+n) of a step into parts of at most limit bytes, each at least one row. It depends on the plan and
// the ticket alone, so that reading a step again gives the same batches.
func split(s *plan.Step, columns []column, first, n, limit int) []part {
	var parts []part
	size := 0
	for i := first; i < first+n; i++ {
		b := rowBytes(columns, int(s.Bucket), len(s.Rows[i]))
		if len(parts) == 0 || size+b > limit {
			parts, size = append(parts, part{first: i}), 0
		}
		parts[len(parts)-1].rows++
		size += b
	}
	return parts
}

// Metadata travels with every record batch as JSON in app_metadata. Counts are of this batch alone, so that those of a step's
// parts and ranks add up to the step's; those of the whole step say so in their names.
type Metadata struct {
	Run        string `json:"run"`
	Step       uint64 `json:"step"`
	Part       int    `json:"part"`        // 0 ... Parts-1
	Parts      int    `json:"parts"`       // record batches that make this rank's part of the step
	Bucket     int    `json:"bucket"`      // length of every row in tokens
	Rows       int    `json:"rows"`        // rows of this batch
	Tokens     int64  `json:"tokens"`      // slots that are not padding
	LossTokens int64  `json:"loss_tokens"` // slots whose label is not -100
	Documents  int    `json:"documents"`   // pieces; a document cut in two counts twice
	MaxSeqlen  int    `json:"max_seqlen"`  // longest attention segment in tokens, padding left out

	// What a loss that leaves out every segment's first token is divided by, StepTokens - StepSegments, without asking the other ranks.
	StepTokens   int64 `json:"step_tokens"`   // tokens of the whole step, on all ranks, without padding
	StepSegments int64 `json:"step_segments"` // attention segments of the whole step, on all ranks
}

// countStep counts what all ranks and parts of a step share.
func (m *Metadata) countStep(s *plan.Step, attention string) {
	for _, row := range s.Rows {
		for _, p := range row {
			m.StepTokens += int64(p.Length)
		}
		if attention == plan.AttentionRow {
			m.StepSegments += int64(min(len(row), 1))
		} else {
			m.StepSegments += int64(len(row))
		}
	}
}

func (m *Metadata) count(l layout) {
	m.Bucket, m.Rows = l.Bucket, l.Rows
	for i, segments := range l.segments {
		m.Documents += len(l.Pieces[i])
		for _, n := range segments {
			m.Tokens += int64(n)
			m.MaxSeqlen = max(m.MaxSeqlen, int(n))
		}
	}
	m.LossTokens = m.Tokens
}

func (m Metadata) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return b
}
