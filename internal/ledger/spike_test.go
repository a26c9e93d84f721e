package ledger

import (
	"io"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/goldentest"
	"loaderd/loader/document"
)

// TestSpike_GoldenOutput compares steps that have more of one source, a document twice, and one from an earlier step.
func TestSpike_GoldenOutput(t *testing.T) {
	piece := func(source string, sequence uint64, start, length int32) Piece {
		return Piece{Piece: api.Piece{Source: source, Sequence: sequence, Start: start, Length: length}}
	}
	r := newSpikeReader()
	r.add(Step{Rows: [][]Piece{{piece("web", 1, 0, 10), piece("code", 7, 0, 90)}, {piece("code", 7, 90, 100)}},
		Documents: []document.Info{{Source: "code", Sequence: 7, ID: "dump", Path: "dump.jsonl"}}})
	r.add(Step{Rows: [][]Piece{{piece("code", 7, 0, 50), piece("web", 2, 5, 20)}, {piece("code", 9, 0, 30)}}})
	r.addBefore(Step{Rows: [][]Piece{{piece("web", 1, 0, 10), piece("web", 3, 0, 30)}, {piece("code", 8, 0, 10)},
		{piece("web", 2, 0, 5), piece("old", 4, 0, 5)}}})
	s := r.spike()
	s.Run, s.Begin, s.End, s.Before = "r", 100, 102, 99
	for _, format := range []string{"table", "json"} {
		goldentest.Compare(t, "spike."+format, func(w io.Writer) error { return s.Write(w, format) })
	}
	for _, wrong := range [][2]uint64{{5, 5}, {6, 5}, {0, maxSpikeSteps + 1}} {
		if CheckSpike(wrong[0], wrong[1]) == nil {
			t.Errorf("steps %v are accepted", wrong)
		}
	}
	if err := CheckSpike(0, maxSpikeSteps); err != nil {
		t.Error(err)
	}
}
