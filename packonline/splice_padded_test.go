package packonline_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/packonline"
)

// ofLengths packs documents of twelve subjects with lengths drawn uniformly from the given ones, and returns the rows
// emitted before the flush.
func ofLengths(t *testing.T, c packonline.Config, n int,
	lengths ...int32) (rows [][]packonline.Piece, p packonline.Packer) {
	t.Helper()
	p = newPacker(t, c)
	hint := about(0)
	r := rand.New(rand.NewPCG(8, 9))
	var out packonline.Rows
	for seq := range uint64(n) {
		p.Add(packonline.Doc{Seq: seq, Length: lengths[r.IntN(len(lengths))], Hint: hint(seq)}, &out)
		for i := range out.Len() {
			_, pieces, _ := out.Row(i)
			rows = append(rows, append([]packonline.Piece(nil), pieces...))
		}
		out.Reset()
	}
	return rows, p
}

// Rows that no documents fill completely still consist of related documents, and pad little more than packing by
// length does.
func TestSplice_PartialRowsStayRelated(t *testing.T) {
	for name, x := range map[string]struct {
		row     int
		lengths []int32
		least   float64 // share of neighbours of one subject
	}{
		"one length":              {820, []int32{30}, .95},
		"one length, filled":      {810, []int32{30}, .95},
		"one length, few a row":   {100, []int32{30}, .9},
		"two lengths, few a row":  {820, []int32{250, 300}, .9},
		"multiples":               {820, []int32{30, 60, 120, 90}, .85},
		"longer than the subject": {1640, []int32{30}, .9},
	} {
		c := config("splice", x.row, 400, 0)
		rows, p := ofLengths(t, c, 4000, x.lengths...)
		byLength := c
		byLength.Method = "bucket"
		_, bucket := ofLengths(t, byLength, 4000, x.lengths...)
		padding := func(c packonline.Counts) float64 { return float64(c.Padding) / float64(c.Slots) }
		have, most := padding(p.Counts()), padding(bucket.Counts())+1./64
		if share := alike(rows); share < x.least || have > most {
			t.Errorf("%s: %.3f of the neighbours alike, want %.3f; %.4f padding, want %.4f at most", name, share, x.least,
				have, most)
		}
	}
}

// A row that related pieces do not fill ends with other pieces that do, if such pieces exist.
func TestSplice_PrefersUnrelatedPiecesToPadding(t *testing.T) {
	c := config("splice", 820, 400, 0)
	// one in ten documents has 10 tokens, which is what 27 documents of 30 leave
	rows, p := ofLengths(t, c, 4000, 30, 30, 30, 30, 30, 30, 30, 30, 30, 10)
	if n := p.Counts(); n.Padding > 0 {
		t.Errorf("%+v are padded", n)
	}
	if share := alike(rows); share < .9 {
		t.Errorf("%.3f of the neighbours are alike", share)
	}
}

// Documents without hints are packed as bucket does, and are counted separately.
func TestSplice_CountsDocumentsWithoutHints(t *testing.T) {
	for _, retriever := range []string{"bm25", "repo", "dense"} {
		c := spliceConfig(retriever, "exact")
		l, err := newLedger(c)
		if err != nil {
			t.Fatal(err)
		}
		known := about(0)
		for seq := range uint64(2000) {
			l.hint = known
			if seq >= 1000 {
				l.hint = hintless
			}
			if err := l.pack(seq, 100); err != nil {
				t.Fatal(err)
			}
		}
		d := l.p.(packonline.DetailedPacker).Detail()
		if d["documents_silent"] != 1000 || d["rows_ended_padded"] < 100 || d["rows_unrelated"] < 100 {
			t.Errorf("%s: %v", retriever, d)
		}
	}
}

// The counts of rows and queries in a state must be possible; otherwise the state is rejected.
func TestSplice_RefusesImpossibleStates(t *testing.T) {
	c := config("splice", 820, 400, 0)
	state := newPacker(t, c).AppendState(nil)
	const counts = 7 + 2 // of ends and of classes, at the end of a state
	head := state[:len(state)-counts-len(binary.AppendVarint(nil, 2048*8))]
	for name, x := range map[string]struct {
		spare  int64
		counts []byte
		want   string
	}{
		"good":                     {2048 * 8, make([]byte, counts), ""},
		"asked too much":           {-2048*8 - 820*8, make([]byte, counts), ""},
		"too many questions":       {2048*8 + 1, make([]byte, counts), "questions"},
		"too few questions":        {-2048*8 - 820*8 - 1, make([]byte, counts), "questions"},
		"more ends than rows":      {0, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0}, "rows"},
		"more silent than came":    {0, []byte{0, 0, 0, 0, 0, 0, 1, 0, 0}, "documents"},
		"more of a class":          {0, []byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, "class 1"},
		"nothing behind the spare": {0, nil, "cut short"},
	} {
		b := append(binary.AppendVarint(slices.Clone(head), x.spare), x.counts...)
		_, err := newPacker(t, c).RestoreState(b)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, x.want)
		}
	}
}
