package packonline_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// packed is the output of a Packer with a pool for all pieces: rows of pieces in order of emission.
type packed struct {
	rows   [][]packonline.Piece
	counts packonline.Counts
	short  int64 // tokens in the pool at the flush
}

func packWhole(t testing.TB, c packonline.Config, in []int32) packed {
	t.Helper()
	c.Pool, c.MaxAge = max(1, len(in)), 0
	p := newPacker(t, c)
	var out packonline.Rows
	for i, n := range in {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
	}
	short := p.Pending().Tokens
	p.Flush(&out)
	x := packed{counts: p.Counts(), short: short}
	for i := range out.Len() {
		_, pieces, _ := out.Row(i)
		x.rows = append(x.rows, pieces)
	}
	return x
}

// chunks cuts documents at multiples of row, and returns the full rows and the remainders.
func chunks(in []int32, row int32) (full [][]packonline.Piece, rest []packonline.Piece) {
	for i, n := range in {
		start := int32(0)
		for ; n-start >= row; start += row {
			full = append(full, []packonline.Piece{{Doc: uint64(i), Start: start, Length: row}})
		}
		if start < n {
			rest = append(rest, packonline.Piece{Doc: uint64(i), Start: start, Length: n - start})
		}
	}
	return full, rest
}

// decreasing is Algorithm 1 of Fewer Truncations and of Seamless Packing as published, in O(n^2). Of several bins
// that fit best it chooses the one that has had its room longest.
func decreasing(pieces []packonline.Piece, capacity int32, best bool) (bins [][]packonline.Piece) {
	sorted := slices.Clone(pieces)
	slices.SortStableFunc(sorted, func(a, b packonline.Piece) int { return cmp.Compare(b.Length, a.Length) })
	var rooms, changed []int32
	for i, x := range sorted {
		to := -1
		for j, room := range rooms {
			switch {
			case room < x.Length:
			case to < 0, best && (room < rooms[to] || room == rooms[to] && changed[j] < changed[to]):
				to = j
			}
		}
		if to < 0 {
			to = len(bins)
			bins, rooms, changed = append(bins, nil), append(rooms, capacity), append(changed, 0)
		}
		bins[to] = append(bins[to], x)
		rooms[to] -= x.Length
		changed[to] = int32(i)
	}
	return bins
}

// crop drops tokens beyond a row's length from the ends of bins.
func crop(bins [][]packonline.Piece, row int32) (rows [][]packonline.Piece, dropped int64) {
	for _, b := range bins {
		left := row
		var kept []packonline.Piece
		for _, x := range b {
			n := min(x.Length, left)
			dropped += int64(x.Length - n)
			left -= n
			if x.Length = n; n > 0 {
				kept = append(kept, x)
			}
		}
		rows = append(rows, kept)
	}
	return rows, dropped
}

func tokens(pieces []packonline.Piece) (n int32) {
	for _, x := range pieces {
		n += x.Length
	}
	return n
}

// sortRows sorts rows into a canonical order, for comparisons of their contents.
func sortRows(rows [][]packonline.Piece) [][]packonline.Piece {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b []packonline.Piece) int {
		return cmp.Or(cmp.Compare(a[0].Doc, b[0].Doc), cmp.Compare(a[0].Start, b[0].Start))
	})
	return rows
}

// TestWholePool_MatchesPublishedAlgorithm compares ffd, bfd and bfd-m with a pool for all pieces with the published
// algorithm, row by row.
func TestWholePool_MatchesPublishedAlgorithm(t *testing.T) {
	for _, method := range []string{"ffd", "bfd", "bfd-m"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(100) {
				r := rand.New(rand.NewPCG(seed, 7))
				row := 2 + r.IntN(300)
				c := config(method, row, 0, 0)
				if method == "bfd-m" {
					c.Extra = r.IntN(row/2 + 1)
				}
				in := randomLengths(r, 1+r.IntN(400), row)
				full, rest := chunks(in, int32(row))
				rows, dropped := crop(decreasing(rest, int32(row+c.Extra), method != "ffd"), int32(row))
				want, have := sortRows(append(full, rows...)), packWhole(t, c, in)
				if got := sortRows(have.rows); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("seed %d: rows of %d + %d from %v are\n%v\nwant\n%v", seed, row, c.Extra, in, got, want)
				}
				if have.counts.Dropped != dropped {
					t.Fatalf("seed %d: %d tokens are dropped, want %d", seed, have.counts.Dropped, dropped)
				}
			}
		})
	}
}

// TestPool_IsNearlyOffline checks that a pool of 4,096 pieces makes at most 0.005 % more rows than packing the whole
// input at once, with and without a bound on ages.
func TestPool_IsNearlyOffline(t *testing.T) {
	for _, name := range []string{"web", "code"} {
		d, _ := lengths.ByName(name)
		in := d.Draw(100_000, 1)
		for _, method := range []string{"ffd", "bfd"} {
			offline := packWhole(t, config(method, 2048, 0, 0), in).counts.Rows
			for _, maxAge := range []int{0, 4 * 4096} {
				p := newPacker(t, config(method, 2048, 4096, maxAge))
				var out packonline.Rows
				for i, n := range in {
					p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
					out.Reset()
				}
				p.Flush(&out)
				if more := 100 * float64(p.Counts().Rows-offline) / float64(offline); more > 0.005 {
					t.Errorf("%s, %s, max age %d: %d rows, %.4f %% more than offline", name, method, maxAge, p.Counts().Rows, more)
				}
			}
		}
	}
}
