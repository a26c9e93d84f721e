package packonline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/testscale"
	"loaderd/packonline"
)

// held returns a configuration with a holdback.
func held(c packonline.Config, hold int) packonline.Config {
	c.Holdback = hold
	return c
}

// TestHoldback_OnlyReordersRows checks that the same rows are emitted with and without a holdback (invariant 6). It
// omits several row lengths, for which bucket also uses a shorter wait.
func TestHoldback_OnlyReordersRows(t *testing.T) {
	emitted := func(c packonline.Config, in []int32) (rows []string) {
		p := newPacker(t, c)
		var out packonline.Rows
		for i, n := range in {
			p.Add(packonline.Doc{Seq: uint64(i), Length: n, Hint: hintOf(uint64(i))}, &out)
		}
		p.Flush(&out)
		for i := range out.Len() {
			length, pieces, _ := out.Row(i)
			rows = append(rows, fmt.Sprint(length, pieces))
		}
		return rows
	}
	for _, method := range []string{"bucket", "bfd", "splice"} {
		moved := 0
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 21))
			c := randomConfig(r, method)
			c.Buckets, c.MaxAge = c.Buckets[:1], []int{0, 40, 400}[r.IntN(3)]
			in := randomLengths(r, 300, c.Buckets[0])
			with, without := emitted(held(c, 100), in), emitted(held(c, 0), in)
			if !slices.Equal(with, without) {
				moved++
			}
			slices.Sort(with)
			slices.Sort(without)
			if !slices.Equal(with, without) {
				t.Fatalf("%s, seed %d: %d rows with a hold, %d others without", method, seed, len(with), len(without))
			}
		}
		if moved < 10 {
			t.Errorf("%s: a hold moved rows in %d runs of 30", method, moved)
		}
	}
}

// TestHoldback_EmitsEarliestRowFirst checks every row against the held rows: none of them has tokens with an earlier
// mean arrival, unless the row had to leave because of its age. The rest of a document counts as no earlier than the
// document, whose full rows leave before it.
func TestHoldback_EmitsEarliestRowFirst(t *testing.T) {
	const pool, maxAge = 60, 400
	c := held(config("bfd", 500, pool, maxAge), 100)
	p, bare := newPacker(t, c), newPacker(t, held(c, 0))
	type row struct {
		text string
		mean float64
	}
	var waits []row
	checked := 0
	for i, n := range lengths.LogNormal(5_000, 3) {
		d := packonline.Doc{Seq: uint64(i), Length: n}
		var all, out packonline.Rows
		bare.Add(d, &all)
		p.Add(d, &out)
		for k := range all.Len() {
			length, pieces, _ := all.Row(k)
			var sum, tokens, rest float64
			for _, x := range pieces {
				sum += float64(x.Length) * float64(x.Doc)
				tokens += float64(x.Length)
				if x.Start > 0 {
					rest = max(rest, float64(x.Doc))
				}
			}
			waits = append(waits, row{fmt.Sprint(length, pieces), max(sum/tokens, rest)})
		}
		for k := range out.Len() {
			length, pieces, ages := out.Row(k)
			at := slices.IndexFunc(waits, func(r row) bool { return r.text == fmt.Sprint(length, pieces) })
			if at < 0 {
				t.Fatalf("after document %d comes %v, which does not wait", i, pieces)
			}
			left := waits[at]
			waits = slices.Delete(waits, at, at+1)
			if slices.Max(ages) == maxAge {
				continue
			}
			for _, r := range waits {
				if r.mean < left.mean-1 {
					t.Fatalf("after document %d the tokens of %s, of %.1f in the mean, leave before those of %s, of %.1f", i,
						left.text, left.mean, r.text, r.mean)
				}
				checked++
			}
		}
	}
	if checked < 10_000 {
		t.Errorf("%d pairs of rows were compared", checked)
	}
}

// TestHoldback_SameRowsAfterRestore uses holdbacks so long that bins of the calendars are several documents wide. A
// Packer that is restored repeatedly emits the same rows, in the same order and with the same ages, and no piece
// becomes too old.
func TestHoldback_SameRowsAfterRestore(t *testing.T) {
	in := lengths.LogNormal(8_000, 4)
	for _, c := range []packonline.Config{
		held(config("bfd", 2048, 900, 3000), 100), held(config("bfd", 2048, 900, 0), 100),
		held(bucketConfig(fiveBuckets, 900, 4096), 300), held(bucketConfig([]int{2048}, 2000, 5000), 100),
	} {
		p, often := newPacker(t, c), newPacker(t, c)
		var want, have packonline.Rows
		for i, n := range in {
			d := packonline.Doc{Seq: uint64(i), Length: n}
			p.Add(d, &want)
			often.Add(d, &have)
			if i%61 == 60 {
				q := newPacker(t, c)
				if _, err := q.RestoreState(often.AppendState(nil)); err != nil {
					t.Fatal(err)
				}
				often = q
			}
			if p.Pending() != often.Pending() {
				t.Fatalf("%+v waits after document %d, want %+v", often.Pending(), i, p.Pending())
			}
		}
		p.Flush(&want)
		often.Flush(&have)
		if have.Len() != want.Len() {
			t.Fatalf("%d rows, want %d", have.Len(), want.Len())
		}
		for i := range want.Len() {
			length, pieces, ages := want.Row(i)
			if l, x, a := have.Row(i); l != length || !slices.Equal(x, pieces) || !slices.Equal(a, ages) {
				t.Fatalf("row %d is %d %v %v, want %d %v %v", i, l, x, a, length, pieces, ages)
			}
			if c.MaxAge > 0 && int(slices.Max(ages)) > c.MaxAge {
				t.Fatalf("row %d has ages %v", i, ages)
			}
		}
	}
}

// TestHoldback_KeepsPadding checks that with several row lengths, where pieces wait for a shorter time, at most one
// more row is padded.
func TestHoldback_KeepsPadding(t *testing.T) {
	in := lengths.LogNormal(testscale.Of(20_000, 100_000), 1)
	for _, c := range []packonline.Config{bucketConfig(fiveBuckets, 4096, 16384), bucketConfig(fiveBuckets, 4096, 8192),
		bucketConfig(fiveBuckets, 256, 8192)} {
		with, without := packList(t, held(c, 100), in), packList(t, held(c, 0), in)
		if with.Padding > without.Padding+int64(fiveBuckets[0]) {
			t.Errorf("pool %d, max age %d: %d padding with a hold, %d without", c.Pool, c.MaxAge, with.Padding, without.Padding)
		}
	}
}

// TestHoldback_RefusesImpossibleStates writes the held rows field by field, with one impossible value.
func TestHoldback_RefusesImpossibleStates(t *testing.T) {
	c := held(bucketConfig([]int{8, 16}, 8, 40), 100) // 8 pieces in rows
	p := newPacker(t, c)
	var out packonline.Rows
	for i := range 10 {
		p.Add(packonline.Doc{Seq: uint64(i), Length: 16}, &out)
	}
	if have := p.Pending(); have != (packonline.Pending{Held: packonline.Held{Rows: 8, Pieces: 8}, Tokens: 128,
		Oldest: 2}) {
		t.Fatalf("pending is %+v", have)
	}
	good := p.AppendState(nil)
	var rows []byte // as encoded in the state: of documents 2 ... 9, which arrived as numbers 3 ... 10
	for i := range 8 {
		distance := []byte{2, 2} // of document and number, times 2
		if i == 0 {
			distance = []byte{4, 6}
		}
		rows = slices.Concat(rows, []byte{1, 1}, distance, []byte{16 << 1})
	}
	rows = append([]byte{8}, rows...)
	head := good[:len(good)-len(rows)]
	if !slices.Equal(slices.Concat(head, rows), good) {
		t.Fatalf("the state ends with %v, want %v", good[len(head):], rows)
	}
	for name, x := range map[string]struct {
		rows []byte
		want string
	}{
		"good":             {rows, ""},
		"none":             {[]byte{0}, ""},
		"too many rows":    {[]byte{9}, "state has 9 rows that are held, at most 8 can be"},
		"no such length":   {[]byte{1, 2, 1, 4, 6, 32}, "state has 2 for a row's length, at most 1 can be"},
		"too many tokens":  {[]byte{1, 0, 1, 4, 6, 32}, "a row of 8 tokens that is held has 16"},
		"no pieces":        {[]byte{1, 0, 0}, "a row of 8 tokens that is held has 0"},
		"an empty piece":   {[]byte{1, 1, 1, 4, 6, 0}, "a piece of document 2 is empty"},
		"a later document": {[]byte{1, 1, 1, 40, 6, 32}, "a piece is of document 20, too late"},
		"too much padding": {[]byte{1, 1, 1, 4, 6, 2}, "1 tokens and 15 padding are held, 160 and 0 were packed"},
		"too many pieces": {slices.Concat([]byte{1, 1, 9, 0, 2, 2}, slices.Repeat([]byte{2, 2, 2}, 8)),
			"9 pieces are held, the bound is 8"},
		"cut short": {rows[:len(rows)-1], "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPacker(t, c)
			_, err := p.RestoreState(slices.Concat(head, x.rows))
			switch {
			case x.want == "" && err != nil, x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Fatalf("error is %v, want %q", err, x.want)
			case err != nil && p.Pending() != packonline.Pending{}:
				t.Fatalf("a refused state left %+v", p.Pending())
			}
		})
	}
}
