package history

import (
	"time"

	"loaderd/internal/api"
	"loaderd/loader/diagnosis"
)

// Sample is a daemon's measurement at one moment. Its counters are totals of the run; they may decrease after a
// takeover.
type Sample struct {
	At                       time.Time
	Planned, Read, Committed uint64
	Tokens, Documents        int64 // tokens in steps, documents packed
	Published                uint64
	Bytes                    float64 // sent per second
	HasReaders               bool    // at least one rank is present
	IsWaiting                bool    // a rank waits for a step that is not planned
	Health                   diagnosis.Health
	Split                    int64 // documents in more than one piece
	RowsRelated, RowsSpliced int64 // splice rows that did not run out of related documents, and all
}

// Times is the course of a run by time, with about one sample per second.
type Times struct {
	last    Sample
	pyramid pyramid[timePoint]
}

// timePoint is the summary of one sample or of several.
type timePoint struct {
	at                                time.Time
	seconds                           float64
	planned, read, committed          uint64
	tokens, documents, published      float64
	bytes, readerSeconds, waitSeconds float64 // multiplied by seconds
	health                            diagnosis.Health
	split, related, spliced           float64
}

// NewTimes returns an empty Times.
func NewTimes() *Times { return &Times{pyramid: newPyramid(mergeMoments)} }

func mergeMoments(m *timePoint, n timePoint) {
	n.seconds += m.seconds
	n.tokens, n.documents, n.published = n.tokens+m.tokens, n.documents+m.documents, n.published+m.published
	n.bytes, n.readerSeconds, n.waitSeconds = n.bytes+m.bytes, n.readerSeconds+m.readerSeconds, n.waitSeconds+m.waitSeconds
	n.split, n.related, n.spliced = n.split+m.split, n.related+m.related, n.spliced+m.spliced
	if severity(m.health) > severity(n.health) {
		n.health = m.health
	}
	*m = n
}

func severity(h diagnosis.Health) int {
	switch h {
	case diagnosis.Failing:
		return 2
	case diagnosis.Waiting:
		return 1
	}
	return 0
}

// Add adds the next sample. It ignores a sample that is not later than the previous one.
func (t *Times) Add(s Sample) {
	before := t.last
	if !before.At.IsZero() && !s.At.After(before.At) {
		return
	}
	t.last = s
	if before.At.IsZero() {
		return
	}
	since := func(now, then int64) float64 { return float64(max(0, now-then)) }
	m := timePoint{at: s.At, seconds: s.At.Sub(before.At).Seconds(), planned: s.Planned, read: s.Read,
		committed: s.Committed,
		tokens:    since(s.Tokens, before.Tokens), documents: since(s.Documents, before.Documents),
		published: since(int64(s.Published), int64(before.Published)), health: s.Health,
		split:   since(s.Split, before.Split),
		related: since(s.RowsRelated, before.RowsRelated), spliced: since(s.RowsSpliced, before.RowsSpliced)}
	m.bytes = s.Bytes * m.seconds
	if s.HasReaders {
		m.readerSeconds = m.seconds
	}
	if s.HasReaders && s.IsWaiting {
		m.waitSeconds = m.seconds
	}
	t.pyramid.add(m, m)
}

// Fill sets the fields of h that are by time.
func (t *Times) Fill(h *api.History) {
	h.Times, h.RecentTimes = series(t.pyramid.summary), series(t.pyramid.newest)
}

func series(all []timePoint) (out api.TimeSeries) {
	splices := false
	for _, m := range all {
		splices = splices || m.spliced > 0
	}
	for _, m := range all {
		a := func(sum float64) float64 { return sum / m.seconds }
		of := func(part, whole float64) float64 {
			if whole == 0 {
				return 0
			}
			return part / whole
		}
		out.Seconds = max(out.Seconds, m.seconds)
		out.At = append(out.At, m.at)
		out.Planned, out.Read, out.Committed = append(out.Planned, m.planned), append(out.Read, m.read),
			append(out.Committed, m.committed)
		out.Tokens, out.Documents, out.Published = append(out.Tokens, a(m.tokens)), append(out.Documents, a(m.documents)),
			append(out.Published, a(m.published))
		var waiting *float64
		if m.readerSeconds > 0 {
			waiting = new(m.waitSeconds / m.readerSeconds)
		}
		out.Bytes, out.Waiting = append(out.Bytes, a(m.bytes)), append(out.Waiting, waiting)
		out.Health = append(out.Health, string(m.health))
		out.Split = append(out.Split, of(m.split, m.documents))
		if splices {
			out.Related = append(out.Related, of(m.related, m.spliced))
		}
	}
	return out
}
