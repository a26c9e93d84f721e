package packonline_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// TestSplice_BuffersEqualShareOfEveryClass checks that with several row lengths, the buffered share of the arrived
// tokens is equal for every class, although short documents leave with any related row.
func TestSplice_BuffersEqualShareOfEveryClass(t *testing.T) {
	c := config("splice", 64, 400, 1600)
	c.Buckets = []int{64, 128, 256, 512, 1024}
	p := newPacker(t, c)
	hint := about(.2)
	class := func(n int32) int {
		k, _ := slices.BinarySearch(c.Buckets, int(n))
		return k
	}
	var out packonline.Rows
	arrived, left := make([]float64, len(c.Buckets)), make([]float64, len(c.Buckets))
	for i, n := range lengths.LogNormal(4_000, 1) {
		n = min(max(1, n/16), 1023)
		p.Add(packonline.Doc{Seq: uint64(i), Length: n, Hint: hint(uint64(i))}, &out)
		arrived[class(n)] += float64(n)
	}
	for i := range out.Len() {
		_, pieces, _ := out.Row(i)
		for _, x := range pieces {
			left[class(x.Length)] += float64(x.Length)
		}
	}
	var shares []float64
	for k := range arrived {
		shares = append(shares, 1-left[k]/arrived[k])
	}
	if slices.Max(shares) > 1.5*slices.Min(shares) {
		t.Errorf("of what arrived of every class there wait %.3f", shares)
	}
}

// TestSplice_RefusesClassTokensBeyondArrivals checks that the classes of a state cannot have more tokens than have
// arrived.
func TestSplice_RefusesClassTokensBeyondArrivals(t *testing.T) {
	c := config("splice", 64, 40, 0)
	c.Buckets = []int{64, 128}
	p := newPacker(t, c)
	var out packonline.Rows
	p.Add(packonline.Doc{Seq: 0, Length: 50}, &out)
	p.Add(packonline.Doc{Seq: 1, Length: 100}, &out)
	good := p.AppendState(nil)
	classes := binary.AppendUvarint([]byte{50}, 100)
	if !slices.Equal(good[len(good)-len(classes):], classes) {
		t.Fatalf("state ends with %v, want %v", good[len(good)-len(classes):], classes)
	}
	head := good[:len(good)-len(classes)]
	for _, x := range []struct {
		classes []byte
		want    string
	}{
		{classes, ""}, {[]byte{0, 0}, ""}, {[]byte{50, 101}, "101 tokens of class 1, at most 100 can be"},
		{[]byte{50}, "cut short"},
	} {
		_, err := newPacker(t, c).RestoreState(slices.Concat(head, x.classes))
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%v: error is %v, want %q", x.classes, err, x.want)
		}
	}
}
