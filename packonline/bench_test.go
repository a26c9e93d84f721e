package packonline_test

import (
	"cmp"
	"math/bits"
	"slices"
	"testing"
	"time"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

const benchDocs = 1_000_000

func config(method string, length, pool, maxAge int) packonline.Config {
	return packonline.Config{Method: method, Buckets: []int{length}, Atom: 1, Pool: pool, MaxAge: maxAge,
		Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096, Dimension: 16}}
}

func newPacker(t testing.TB, c packonline.Config) packonline.Packer {
	t.Helper()
	p, err := packonline.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// BenchmarkPack packs a million log-normal lengths into rows of 2,048, including the final flush, with the settings
// of the figures in the documentation. Two baselines only count rows, without their contents: the paper's segment
// tree over the whole input, and rows kept open and scanned for the best fit. "x-scan" is the speed relative to the
// latter.
func BenchmarkPack(b *testing.B) {
	in := lengths.LogNormal(benchDocs, 1)
	start := time.Now()
	openRows(in, 2048, 1024)
	scan := time.Since(start)
	for _, c := range []packonline.Config{
		config("concat", 2048, 4096, 0),
		config("ffd", 2048, 4096, 16384), config("ffd", 2048, benchDocs, 0),
		config("bfd", 2048, 4096, 16384), config("bfd", 2048, benchDocs, 0),
		seamless(2048, 4096, 16384, 0.3, 50), seamless(2048, benchDocs, 0, 0.3, 50),
	} {
		name := c.Method
		if c.Pool == benchDocs {
			name += "-offline"
		}
		b.Run(name, func(b *testing.B) {
			var counts packonline.Counts
			for b.Loop() {
				counts = packLengths(b, c, in)
			}
			report(b, counts.Padding, counts.Slots)
			b.ReportMetric(float64(scan)*float64(b.N)/float64(b.Elapsed()), "x-scan")
		})
	}
	b.Run("baseline-segment-tree-offline", func(b *testing.B) {
		var padding, slots int64
		for b.Loop() {
			padding, slots = segmentTree(in, 2048)
		}
		report(b, padding, slots)
	})
	b.Run("baseline-scan-open-rows", func(b *testing.B) {
		var padding, slots int64
		for b.Loop() {
			padding, slots = openRows(in, 2048, 1024)
		}
		report(b, padding, slots)
	})
}

func report(b *testing.B, padding, slots int64) {
	b.ReportMetric(float64(b.N)*benchDocs/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(100*float64(padding)/float64(slots), "%pad")
}

// segmentTree is best-fit-decreasing as in the paper's appendix B: a segment tree of maxima over the amounts of room
// in use.
func segmentTree(in []int32, length int32) (padding, slots int64) {
	var pieces []int32
	for _, n := range in {
		slots += int64(n/length) * int64(length)
		if n %= length; n > 0 {
			pieces = append(pieces, n)
		}
	}
	slices.SortFunc(pieces, func(a, b int32) int { return cmp.Compare(b, a) })
	size := int32(1) << bits.Len32(uint32(length))
	tree := make([]int32, 2*size)
	rows := make([]int32, length+1) // room -> number of rows with it
	set := func(room, value int32) {
		i := room + size
		tree[i] = value
		for i /= 2; i > 0; i /= 2 {
			tree[i] = max(tree[2*i], tree[2*i+1])
		}
	}
	set(length, length)
	for _, n := range pieces {
		i := int32(1)
		for i < size {
			if i *= 2; tree[i] < n {
				i++
			}
		}
		room := tree[i]
		if room == length {
			slots += int64(length)
			padding += int64(length)
		} else if rows[room]--; rows[room] == 0 {
			set(room, 0)
		}
		padding -= int64(n)
		if room -= n; room > 0 {
			if rows[room]++; rows[room] == 1 {
				set(room, room)
			}
		}
	}
	return padding, slots
}

// openRows is the usual streaming packer: several rows are open, and each piece is put into the one it fits best,
// found by a scan. When a new row is needed, the fullest one is closed.
func openRows(in []int32, length int32, open int) (padding, slots int64) {
	var rooms []int32
	for _, n := range in {
		slots += int64(n/length) * int64(length)
		if n %= length; n == 0 {
			continue
		}
		best, fullest := -1, 0
		for i, room := range rooms {
			if room >= n && (best < 0 || room < rooms[best]) {
				best = i
			}
			if room < rooms[fullest] {
				fullest = i
			}
		}
		switch {
		case best >= 0:
			rooms[best] -= n
			if rooms[best] == 0 {
				rooms[best] = rooms[len(rooms)-1]
				rooms = rooms[:len(rooms)-1]
				slots += int64(length)
			}
		case len(rooms) < open:
			rooms = append(rooms, length-n)
		default:
			padding += int64(rooms[fullest])
			slots += int64(length)
			rooms[fullest] = length - n
		}
	}
	for _, room := range rooms {
		padding += int64(room)
		slots += int64(length)
	}
	return padding, slots
}

// packLengths packs documents of these lengths, including the final flush.
func packLengths(b *testing.B, c packonline.Config, in []int32) packonline.Counts {
	b.Helper()
	p := newPacker(b, c)
	var out packonline.Rows
	for i, n := range in {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
		out.Reset()
	}
	p.Flush(&out)
	return p.Counts()
}
