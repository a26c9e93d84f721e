package packonline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"loaderd/packonline"
)

// TestPad_MatchesPaper compares pad with the single steps of the paper's figure 5. These make segments of (atom - 1)
// tokens of text, <EOS> after each and padding after the last, then a cut at every row.
func TestPad_MatchesPaper(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := randomConfig(r, "pad")
		row := int(rowLengths(c)[0])
		atom := max(int(float64(c.Buckets[0])*c.Atom), 2)
		var want, have strings.Builder
		p := newPacker(t, c)
		var out packonline.Rows
		var truncated int64
		for i, n := range randomLengths(r, 1+r.IntN(30), row) {
			n = min(n, int32(10*atom), 2000)
			rows := paperRows(i, int(n)-1, row, atom, &want)
			if rows > 1 {
				truncated++
			}
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
			writeRows(&out, n, &have)
			if have.String() != want.String() {
				t.Fatalf("seed %d, %+v: a document of %d tokens gives\n%s\nwant\n%s", seed, c, n, have.String(), want.String())
			}
			have.Reset()
			want.Reset()
		}
		if x := p.Counts(); x.Truncated != truncated || x.Repeated != 0 || x.Dropped != 0 {
			t.Fatalf("seed %d, %+v: %+v, %d documents have several rows", seed, c, x, truncated)
		}
	}
}

// paperRows writes the rows of document i, which has text tokens and its <EOS>. Rows of one atom are joined by "+".
func paperRows(i, text, row, atom int, w *strings.Builder) (rows int) {
	for start := 0; start == 0 || start < text; start += atom - 1 {
		var segment []string
		for k := start; k < min(start+atom-1, text); k++ {
			segment = append(segment, fmt.Sprintf("%d/%d", i, k))
		}
		segment = append(segment, "E")
		for len(segment)%min(atom, row) > 0 {
			segment = append(segment, "E")
		}
		for k := 0; k < len(segment); k += row {
			if k > 0 {
				w.WriteString("+ ")
			}
			fmt.Fprintln(w, segment[k:min(k+row, len(segment))])
			rows++
		}
	}
	return rows
}

// writeRows writes the emitted rows in the same format. The last token of a document of n is its <EOS>.
func writeRows(out *packonline.Rows, n int32, w *strings.Builder) {
	for i := range out.Len() {
		length, pieces, _ := out.Row(i)
		var tokens []string
		for _, x := range pieces {
			for k := x.Start; k < x.Start+x.Length; k++ {
				if k == n-1 {
					tokens = append(tokens, "E")
				} else {
					tokens = append(tokens, fmt.Sprintf("%d/%d", x.Doc, k))
				}
			}
		}
		for len(tokens) < int(length) {
			tokens = append(tokens, "E")
		}
		if out.IsJoined(i) {
			w.WriteString("+ ")
		}
		fmt.Fprintln(w, tokens)
	}
	out.Reset()
}

// TestPad_ExampleOfPaper is the example of A.3: a document of 130 tokens of text in rows of 64, which has 131 tokens
// with its end.
func TestPad_ExampleOfPaper(t *testing.T) {
	c := config("pad", 64, 1, 0)
	p := newPacker(t, c)
	var out packonline.Rows
	p.Add(packonline.Doc{Seq: 0, Length: 131}, &out)
	var used []int32
	for i := range out.Len() {
		_, pieces, _ := out.Row(i)
		used = append(used, pieces[0].Length)
	}
	if fmt.Sprint(used) != "[63 63 5]" || p.Counts().Padding != 1+1+59 {
		t.Fatalf("rows hold %v with %d padding", used, p.Counts().Padding)
	}
	// The longest possible document, in atoms larger than it.
	c.Buckets[0], c.Atom = 1<<30-1, 4
	p = newPacker(t, c)
	out.Reset()
	p.Add(packonline.Doc{Seq: 0, Length: 1<<31 - 1}, &out)
	if x := p.Counts(); x.Rows != 3 || x.Padding != 3*(1<<30-1)-(1<<31-1) || out.IsJoined(0) || !out.IsJoined(1) ||
		!out.IsJoined(2) {
		t.Fatalf("%+v", x)
	}
}
