package batch

import (
	"encoding/json"

	"loaderd/internal/api"
	"loaderd/loader/plan"
)

// Part is a run of rows of a step that is sent as one record batch.
type Part struct{ First, Rows int }

// Split divides rows [first, first+n) of a step into parts of at most limit bytes, each of at least one row. The
// result depends only on the plan and the ticket, so reading a step again returns the same batches.
func Split(s *plan.Step, columns []Column, first, n, limit int) []Part {
	var parts []Part
	size := 0
	for i := first; i < first+n; i++ {
		b := rowBytes(columns, s, i)
		if len(parts) == 0 || size+b > limit {
			parts, size = append(parts, Part{First: i}), 0
		}
		parts[len(parts)-1].Rows++
		size += b
	}
	return parts
}

// messageOverhead bounds the size of a message without its columns' values.
const messageOverhead = 4 << 10

// MemoryBound bounds the bytes that a part needs while it is assembled and sent.
func (p Part) MemoryBound(s *plan.Step, columns []Column) int64 {
	n := messageOverhead + sourceCountBytes*p.maxSources(s)
	for i := p.First; i < p.First+p.Rows; i++ {
		n += rowBytes(columns, s, i)
	}
	for _, c := range columns {
		n += c.perBatch
	}
	return int64(n)
}

// CountStep sets the counts that all ranks and parts of a step share.
func CountStep(m *api.Metadata, s *plan.Step, sources *Sources) {
	m.StepRows, m.StepSources = len(s.Rows), len(sources.Config.Sources)
	for _, row := range s.Rows {
		for _, p := range row {
			m.StepTokens += int64(p.Length)
			m.StepSources = max(m.StepSources, plan.RefSource(p.Doc)+1)
		}
		if sources.isOneSegment(row) {
			m.StepSegments += int64(min(len(row), 1))
		} else {
			m.StepSegments += int64(len(row))
		}
	}
	m.StepLossTokens, m.StepLossSegments = m.StepTokens-s.Masked, m.StepSegments-s.MaskedSegmentStarts
}

// countBatch sets the counts of one batch.
func countBatch(m *api.Metadata, l layout) {
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
		m.LossTokens -= l.countMasked(i, 0, int32(l.Bucket))
	}
	countSources(m, l)
}

func countSources(m *api.Metadata, l layout) {
	m.Sources = map[string]api.SourceCount{}
	for i, row := range l.Pieces {
		at := int32(0)
		for _, p := range row {
			name := l.sources.Name(p.Doc)
			c := m.Sources[name]
			c.Tokens += int64(p.Length)
			c.LossTokens += int64(p.Length) - l.countMasked(i, at, p.Length)
			m.Sources[name] = c
			at += p.Length
		}
	}
}

// encodeMetadata returns the JSON of a batch's metadata.
func encodeMetadata(m api.Metadata) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return b
}
