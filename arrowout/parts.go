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
		b := rowBytes(columns, s, i)
		if len(parts) == 0 || size+b > limit {
			parts, size = append(parts, part{first: i}), 0
		}
		parts[len(parts)-1].rows++
		size += b
	}
	return parts
}

// envelope is more than a message takes beside its columns' values.
const envelope = 4 << 10

// memory bounds the bytes that a part takes while it is made and sent.
func (p part) memory(s *plan.Step, columns []column) int64 {
	n := envelope + bytesOfSource*p.named(s)
	for i := p.first; i < p.first+p.rows; i++ {
		n += rowBytes(columns, s, i)
	}
	for _, c := range columns {
		n += c.perBatch
	}
	return int64(n)
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

	// What a loss that leaves out every segment's first token is divided by, StepTokens - StepSegments, without asking the other ranks, where every token
	// has a loss.
	StepTokens   int64 `json:"step_tokens"`   // tokens of the whole step, on all ranks, without padding
	StepSegments int64 `json:"step_segments"` // attention segments of the whole step, on all ranks
	// The same where not every token has a loss: such a loss is divided by StepLossTokens - StepLossSegments.
	StepLossTokens   int64 `json:"step_loss_tokens"`   // tokens of the whole step with a loss
	StepLossSegments int64 `json:"step_loss_segments"` // segments of the whole step whose first token has a loss

	// Weighted says that the loss of a piece of this batch has another weight than 1: the column loss_weights tells.
	Weighted bool `json:"weighted,omitempty"`

	// StepSources is how many sources the step's numbers may be of: those that the run began with, and more where one of them came later.
	StepSources int                    `json:"step_sources,omitempty"`
	Sources     map[string]SourceCount `json:"sources,omitzero"` // of a run with several: what this batch has of each, by name
}

// countStep counts what all ranks and parts of a step share.
func (m *Metadata) countStep(s *plan.Step, sources *sources) {
	m.StepSources = len(sources.config.Sources)
	for _, row := range s.Rows {
		for _, p := range row {
			m.StepTokens += int64(p.Length)
			if sources.mixed {
				m.StepSources = max(m.StepSources, plan.RefSource(p.Doc)+1)
			}
		}
		if sources.whole(row) {
			m.StepSegments += int64(min(len(row), 1))
		} else {
			m.StepSegments += int64(len(row))
		}
	}
	m.StepLossTokens, m.StepLossSegments = m.StepTokens-s.Masked, m.StepSegments-s.MaskedFirst
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
	m.LossTokens, m.Weighted = m.Tokens, l.Weights != nil
	for i := range l.Loss {
		m.LossTokens -= l.masked(i, 0, int32(l.Bucket))
	}
	m.countSources(l)
}

func (m *Metadata) countSources(l layout) {
	if !l.sources.mixed {
		return
	}
	m.Sources = map[string]SourceCount{}
	for i, row := range l.Pieces {
		at := int32(0)
		for _, p := range row {
			name := l.sources.name(p.Doc)
			c := m.Sources[name]
			c.Tokens += int64(p.Length)
			c.LossTokens += int64(p.Length) - l.masked(i, at, p.Length)
			m.Sources[name] = c
			at += p.Length
		}
	}
}

func (m Metadata) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return b
}
