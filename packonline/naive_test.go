package packonline_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/packonline"
)

// TestNaive_IsConcatPerBucket compares naive with one concat per row length.
func TestNaive_IsConcatPerBucket(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := randomConfig(r, "naive")
		c.MaxDocumentsPerRow = 0
		c.MaxAge = 0
		var runs []packonline.Packer
		for _, l := range rowLengths(c) {
			runs = append(runs, newPacker(t, config("concat", int(l), 1, 0)))
		}
		p := newPacker(t, c)
		var want, have packonline.Rows
		for i, n := range randomLengths(r, 1+r.IntN(300), int(slices.Max(rowLengths(c)))) {
			k := slices.IndexFunc(rowLengths(c), func(l int32) bool { return l >= n })
			if k < 0 {
				k = len(runs) - 1
			}
			runs[k].Add(packonline.Doc{Seq: uint64(i), Length: n}, &want)
			p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &have)
		}
		for _, x := range runs {
			x.Flush(&want)
		}
		p.Flush(&have)
		var counts packonline.Counts
		for _, x := range runs {
			counts.Padding += x.Counts().Padding
			counts.Truncated += x.Counts().Truncated
		}
		if x := p.Counts(); x.Padding != counts.Padding || x.Truncated != counts.Truncated {
			t.Fatalf("seed %d, %+v: %+v, want %+v", seed, c, x, counts)
		}
		if have, want := byDocument(&have), byDocument(&want); !slices.Equal(have, want) {
			t.Fatalf("seed %d, %+v: rows are\n%v\nwant\n%v", seed, c, have, want)
		}
	}
}

// byDocument describes rows without their ages, in an order that does not depend on the time of emission.
func byDocument(out *packonline.Rows) []string {
	rows := make([]string, out.Len())
	for i := range rows {
		length, pieces, _ := out.Row(i)
		rows[i] = fmt.Sprint(length, pieces)
	}
	slices.Sort(rows)
	return rows
}

func TestNaive_RefusesImpossibleStates(t *testing.T) {
	c := packonline.Config{Method: "naive", Buckets: []int{8, 16}, Atom: 1, Pool: 1}
	// A piece of 3 for a row of 8, and the last token of a document of 17 for the row of 16.
	refuses(t, c, []int32{3, 17}, []byte{1, 20, 2, 6, 1, 4, 2, 3, 16}, map[string]refusal{
		"as it was":           {[]byte{1, 20, 2, 6, 1, 4, 2, 3, 16}, ""},
		"too short":           {[]byte{1, 20, 2, 6, 1, 4, 2, 16}, "document 12 of 8 tokens waits for a row of 16"},
		"too long":            {[]byte{1, 20, 2, 7, 6, 1, 4, 2, 3, 16}, "document 10 of 9 tokens waits for a row of 8"},
		"longer than any row": {[]byte{1, 20, 2, 7, 30, 1, 4, 2, 3, 16}, "document 10 of 33 tokens waits for a row of 8"},
		"a full row":          {[]byte{1, 20, 2, 16, 1, 4, 2, 3, 16}, "8 tokens or more wait for a row of 8"},
		"one in two buckets":  {[]byte{1, 20, 2, 6, 1, 0, 0, 3, 16}, "waits behind"},
	})
}

type refusal struct {
	pieces []byte
	want   string // "" for a valid state
}

// refuses replaces the end of a state from the first number of the method's pieces on. For these documents it is end.
func refuses(t *testing.T, c packonline.Config, add []int32, end []byte, cases map[string]refusal) {
	t.Helper()
	p := newPacker(t, c)
	var out packonline.Rows
	for i, n := range add {
		p.Add(packonline.Doc{Seq: uint64(10 + 2*i), Length: n}, &out)
	}
	state := p.AppendState(nil)
	keep := state[:len(state)-len(end)]
	if !slices.Equal(state[len(keep):], end) {
		t.Fatalf("the state ends in %v, want %v", state[len(keep):], end)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			x := cases[name]
			p := newPacker(t, c)
			_, err := p.RestoreState(slices.Concat(keep, x.pieces))
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Fatalf("error is %v, want %q", err, x.want)
			}
			if err != nil && p.Pending().Pieces > 0 {
				t.Fatalf("a refused state left %+v", p.Pending())
			}
		})
	}
}
