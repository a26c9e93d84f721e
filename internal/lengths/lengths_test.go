package lengths_test

import (
	"math"
	"slices"
	"testing"

	"loaderd/internal/lengths"
)

// TestDistributions_MatchDocumentedProperties compares samples of every distribution with its documented properties.
func TestDistributions_MatchDocumentedProperties(t *testing.T) {
	for name, want := range map[string]struct {
		least, most  int32 // of all documents
		mean, median float64
		within       float64 // tolerance of mean and median, as a share
	}{
		"fineweb-edu": {1, math.MaxInt32, math.Exp(6.363 + 1.0235*1.0235/2), math.Exp(6.363), 0.01},
		"web":         {1, math.MaxInt32, math.Exp(5.9 + 0.5), math.Exp(5.9), 0.01},
		"code":        {1, math.MaxInt32, math.Exp(6.1 + 1.4*1.4/2), math.Exp(6.1), 0.02},
		"short":       {1, math.MaxInt32, 60, 60 * math.Exp(-0.32), 0.02},
		"pubmed":      {2048, 30 << 10, 5.457 * 1024, 4.84 * 1024, 0.02},
		"bbc":         {512, 6 << 10, 1.226 * 1024, 1216, 0.02},
		"finance":     {512, 12 << 10, 1.750 * 1024, 1022, 0.02},
		"wikitext":    {59, math.MaxInt32, 144, 139, 0.01},
		"constant":    {1500, 1500, 1500, 1500, 0},
		"drift":       {1, math.MaxInt32, 920, math.Exp(6.25), 0.02},
	} {
		d, ok := lengths.ByName(name)
		if !ok || d.Name != name || d.Shape == "" || d.Source == "" || d.Documents < 1 {
			t.Errorf("%s: %+v", name, d)
			continue
		}
		in := d.Draw(d.Documents, 1)
		if len(in) != d.Documents || !slices.Equal(in, d.Draw(d.Documents, 1)) {
			t.Errorf("%s: the draws of one seed differ", name)
		}
		if name != "constant" && slices.Equal(in[:100], d.Draw(d.Documents, 2)[:100]) {
			t.Errorf("%s: the seed draws nothing", name)
		}
		var sum float64
		for _, n := range in {
			sum += float64(n)
		}
		mean := sum / float64(len(in))
		slices.Sort(in)
		median := float64(in[len(in)/2])
		if in[0] < want.least || in[len(in)-1] > want.most || math.Abs(mean/want.mean-1) > want.within ||
			math.Abs(median/want.median-1) > want.within {
			t.Errorf("%s: %d to %d, mean %.1f, median %.0f; want %+v", name, in[0], in[len(in)-1], mean, median, want)
		}
	}
	if n := len(lengths.Distributions()); n != 10 {
		t.Errorf("%d distributions", n)
	}
}

// TestClasses_MatchPublishedTable checks that the classes have exactly the table's numbers if n is its number of
// documents, otherwise its shares, and that the order is random.
func TestClasses_MatchPublishedTable(t *testing.T) {
	count := func(in []int32, from, to int32) (n int) {
		for _, x := range in {
			if x >= from && x < to {
				n++
			}
		}
		return n
	}
	d, _ := lengths.ByName("pubmed")
	in := d.Draw(d.Documents, 7)
	if len(in) != 11_268 || count(in, 2048, 4096) != 3906 || count(in, 4096, 6144) != 4095 ||
		count(in, 18<<10, 30<<10) != 90 {
		t.Errorf("%d documents of PubMed, %d in the first class", len(in), count(in, 2048, 4096))
	}
	if first := count(in[:1000], 2048, 4096); first < 250 || first > 450 {
		t.Errorf("%d of the first 1000 documents are in the first class: the order is not random", first)
	}
	for _, n := range []int{0, 1, 7, 1000} {
		in := d.Draw(n, 7)
		if first := count(in, 2048, 4096); len(in) != n || math.Abs(float64(first)-0.3466*float64(n)) > 1 {
			t.Errorf("%d documents, %d in the first class", len(in), first)
		}
	}
}

// TestDrift_LaterDocumentsAreLonger checks that later documents are longer.
func TestDrift_LaterDocumentsAreLonger(t *testing.T) {
	d, _ := lengths.ByName("drift")
	in := d.Draw(100_000, 1)
	var early, late float64
	for i := range 10_000 {
		early += math.Log(float64(in[i]) + 0.5)
		late += math.Log(float64(in[len(in)-1-i]) + 0.5)
	}
	if early, late = early/10_000, late/10_000; math.Abs(early-5.575) > 0.03 || math.Abs(late-6.925) > 0.03 {
		t.Errorf("mu is %.3f at first and %.3f at last", early, late)
	}
}

// TestWikiText_StepsMatchPublishedTable compares numbers of training steps with Optimizing Packing and Shuffling, Table
// 3: two epochs.
func TestWikiText_StepsMatchPublishedTable(t *testing.T) {
	d, _ := lengths.ByName("wikitext")
	in := d.Draw(d.Documents, 1)
	for _, c := range []struct {
		row, batch  int
		concat, pad float64
	}{{32, 256, 28120, 31816}, {64, 256, 14058, 17308}, {128, 128, 14056, 20496}} {
		var tokens, padded int
		for _, n := range in {
			tokens += int(n)
			text := int(n) - 1
			padded += (text + c.row - 2) / (c.row - 1)
		}
		concat, pad := 2*float64(tokens)/float64(c.row*c.batch), 2*float64(padded)/float64(c.batch)
		if math.Abs(concat/c.concat-1) > 0.005 || math.Abs(pad/c.pad-1) > 0.01 {
			t.Errorf("rows of %d: %.0f steps for concat, %.0f for padding; published %v, %v", c.row, concat, pad,
				c.concat, c.pad)
		}
	}
}
