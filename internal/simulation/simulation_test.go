package simulation_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/config"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

func run(t *testing.T, c packonline.Config, in []int32) (*simulation.Result, string) {
	t.Helper()
	if c.Atom == 0 {
		c.Atom = 1
	}
	var placements bytes.Buffer
	r, err := simulation.Run(t.Context(), c, in, &placements)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return r, placements.String()
}

// TestRun_JSONFields checks every field of the result on the example of the packing paper's first figure.
func TestRun_JSONFields(t *testing.T) {
	for method, want := range map[string]string{
		"bfd": `{"method":"bfd","documents":5,"tokens":31,"sequences":4,"slots":32,"padding_tokens":1,"dropped_tokens":0,
			"repeated_tokens":0,"truncated_documents":1,"not_whole_documents":1,"pieces":6,"padding_ratio":0.03125,"truncation_ratio":0.2,"concatenation_ratio":1.25,
			"age_max":4,"age_median":2,"pool_max":5,"attention_cost":187,"attention_cost_unmasked":256,"buckets":[{"length":8,"sequences":4}],
			"detail":{"atom":1,"pool":5,"holdback":0,"max_age":0,"seed":3,"flush_pieces":5,"flush_sequences":3,"flush_padding_tokens":1}}`,
		"concat": `{"method":"concat","documents":5,"tokens":31,"sequences":4,"slots":32,"padding_tokens":1,"dropped_tokens":0,
			"repeated_tokens":0,"truncated_documents":3,"not_whole_documents":3,"pieces":8,"padding_ratio":0.03125,"truncation_ratio":0.6,"concatenation_ratio":1.25,
			"age_max":2,"age_median":1,"pool_max":3,"attention_cost":155,"attention_cost_unmasked":256,"buckets":[{"length":8,"sequences":4}],
			"detail":{"atom":1,"pool":5,"max_age":0,"seed":3,"flush_pieces":3,"flush_sequences":1,"flush_padding_tokens":1}}`,
	} {
		r, _ := run(t, packonline.Config{Method: method, Buckets: []int{8}, Seed: 3}, []int32{14, 7, 5, 2, 3})
		if r.Seconds <= 0 || math.Abs(r.DocumentsPerSecond*r.Seconds-5) > 1e-6 {
			t.Errorf("%s: %v seconds at %v documents a second", method, r.Seconds, r.DocumentsPerSecond)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var have, wanted map[string]any
		if err := errors.Join(json.Unmarshal(b, &have), json.Unmarshal([]byte(want), &wanted)); err != nil {
			t.Fatal(err)
		}
		delete(have, "seconds")
		delete(have, "documents_per_second")
		if diff := cmp.Diff(wanted, have); diff != "" {
			t.Errorf("%s: -want +got:\n%s", method, diff)
		}
	}
}

// TestPlacements_MatchResult compares the sequences of every method at every atom size with the result.
func TestPlacements_MatchResult(t *testing.T) {
	in := lengths.LogNormal(3_000, 4)
	for i := range in {
		in[i] = 1 + in[i]/4
	}
	for _, method := range packonline.Methods() {
		buckets := []int{512}
		if packonline.IsMultiBucket(method) {
			buckets = []int{128, 256, 512}
		}
		for _, atom := range []float64{0.25, 0.5, 1, 2, 4} {
			for _, pool := range []int{0, 300} {
				c := packonline.Config{Method: method, Buckets: buckets, Atom: atom, Pool: pool, Overlap: 0.3, Extra: 20,
					PaddingThreshold: 0.05, Splice: config.Default().Plan.Packing.Splice}
				if pool > 0 {
					c.MaxAge = 900
				}
				if len(simulation.Validate(c)) > 0 {
					continue // tests of the method cover invalid configurations
				}
				name := fmt.Sprintf("%s, atom %v, pool %d", method, atom, pool)
				r, rows := run(t, c, in)
				checkRows(t, name, r, rows, in)
				if pool > 0 && atom >= 1 && r.AgeMax > 900 { // parts of a row also wait for one another
					t.Errorf("%s: a document waits for %d others", name, r.AgeMax)
				}
			}
		}
	}
}

// checkRows compares rows with the result.
func checkRows(t *testing.T, name string, r *simulation.Result, rows string, in []int32) {
	t.Helper()
	want := simulation.Result{Method: r.Method, Documents: int64(len(in))}
	pieces := make([][][2]int32, len(in)) // start and end
	sequences := map[int]int64{}
	var cut int64 // documents in one piece that is shorter than the document
	lines := bufio.NewScanner(strings.NewReader(rows))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		head, row, _ := strings.Cut(lines.Text(), "\t")
		var length int
		if _, err := fmt.Sscanf(head, "%d", &length); err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		sequences[length]++
		used := 0
		for piece := range strings.SplitSeq(row, " ") {
			var doc int
			var start, n int32
			if _, err := fmt.Sscanf(piece, "%d:%d:%d", &doc, &start, &n); err != nil || n < 1 || start < 0 || start+n > in[doc] {
				t.Fatalf("%s: %q: %v", name, lines.Text(), err)
			}
			pieces[doc] = append(pieces[doc], [2]int32{start, start + n})
			want.AttentionCost += float64(n) * float64(n)
			want.Pieces++
			used += int(n)
		}
		if used > length {
			t.Fatalf("%s: %q holds %d tokens", name, lines.Text(), used)
		}
		want.PaddingTokens += int64(length - used)
		want.Slots += int64(length)
		want.Sequences++
		want.AttentionCostUnmasked += float64(length * length)
	}
	for i, n := range in {
		want.Tokens += int64(n)
		slices.SortFunc(pieces[i], func(a, b [2]int32) int { return int(a[0] - b[0]) })
		var covered, end int32
		for _, p := range pieces[i] {
			covered += max(0, p[1]-max(p[0], end))
			want.RepeatedTokens += int64(p[1]-p[0]) - int64(max(0, p[1]-max(p[0], end)))
			end = max(end, p[1])
		}
		want.DroppedTokens += int64(n - covered)
		if len(pieces[i]) > 1 {
			want.TruncatedDocuments++
		} else if n > covered {
			cut++
		}
		if len(pieces[i]) != 1 || pieces[i][0] != [2]int32{0, n} {
			want.NotWhole++
		}
	}
	// For a document that lost tokens, the rows do not show whether the lost part was a separate piece.
	if more := r.TruncatedDocuments - want.TruncatedDocuments; more > 0 && more <= cut {
		want.TruncatedDocuments += more
	}
	for _, b := range r.Buckets {
		want.Buckets = append(want.Buckets, simulation.Bucket{Length: b.Length, Sequences: sequences[b.Length]})
		delete(sequences, b.Length)
	}
	if len(sequences) > 0 {
		t.Errorf("%s: rows of unknown lengths: %v", name, sequences)
	}
	have := *r
	for _, x := range []*simulation.Result{&have, &want} {
		if x.Tokens+x.RepeatedTokens-x.DroppedTokens+x.PaddingTokens != x.Slots {
			t.Errorf("%s: tokens are not conserved: %+v", name, *x)
		}
		x.PaddingRatio, x.TruncationRatio, x.ConcatenationRatio = 0, 0, 0
	}
	have.AgeMax, have.AgeMedian, have.PoolMax, have.Seconds, have.DocumentsPerSecond, have.Detail, have.Sample = 0, 0, 0,
		0, 0, nil, nil
	text := func(r simulation.Result) string { b, _ := json.Marshal(r); return string(b) }
	if diff := cmp.Diff(text(want), text(have)); diff != "" {
		t.Errorf("%s: -placements +report:\n%s", name, diff)
	}
}

// TestAtoms_QuarterAtomsMakeRows checks that four atoms of a quarter row make a row in the order of packing, and that
// missing parts of the last row are padding.
func TestAtoms_QuarterAtomsMakeRows(t *testing.T) {
	r, rows := run(t, packonline.Config{Method: "concat", Buckets: []int{8}, Atom: 0.25}, []int32{5, 4, 3})
	if want := "8\t0:0:2 0:2:2 0:4:1 1:0:1 1:1:2\n8\t1:3:1 2:0:1 2:1:2\n"; rows != want {
		t.Errorf("rows are %q, want %q", rows, want)
	}
	if r.Sequences != 2 || r.Slots != 16 || r.PaddingTokens != 4 || r.Detail["flush_padding_tokens"] != int64(4) ||
		r.Detail["flush_sequences"] != int64(1) {
		t.Errorf("%+v", r)
	}
}

// TestRun_DroppedTokensCountAsNotWhole checks that a document with dropped tokens is not whole, even in one piece.
func TestRun_DroppedTokensCountAsNotWhole(t *testing.T) {
	r, rows := run(t, packonline.Config{Method: "bfd-m", Buckets: []int{8}, Extra: 2}, []int32{7, 3, 8})
	if rows != "8\t2:0:8\n8\t0:0:7 1:0:1\n" || r.TruncatedDocuments != 0 || r.NotWhole != 1 || r.DroppedTokens != 2 {
		t.Errorf("%d documents are split, %d not whole: %q", r.TruncatedDocuments, r.NotWhole, rows)
	}
}

// TestAtoms_AgeEndsWithLastPartOfRow checks that a document's age ends with the last part of its row.
func TestAtoms_AgeEndsWithLastPartOfRow(t *testing.T) {
	r, rows := run(t, packonline.Config{Method: "concat", Buckets: []int{8}, Atom: 0.5}, []int32{4, 1, 1, 1, 1, 4})
	if rows != "8\t0:0:4 1:0:1 2:0:1 3:0:1 4:0:1\n8\t5:0:4\n" || r.AgeMax != 4 || r.AgeMedian != 1 {
		t.Errorf("ages are %d at most and %d in the median: %q", r.AgeMax, r.AgeMedian, rows)
	}
	// The flush packs document 0, and document 3 is the last one that was added.
	if r, _ = run(t, packonline.Config{Method: "concat", Buckets: []int{8}, Atom: 0.5},
		[]int32{4, 1, 1, 1}); r.AgeMax != 3 {
		t.Errorf("ages are %d at most", r.AgeMax)
	}
}

// No document is older than MaxAge when its last piece is in a row, for any method, atoms, buckets and lengths.
func TestRun_BoundsAgesWithAtoms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, method := range packonline.Methods() {
		for _, atom := range []float64{0.25, 0.5, 1, 2, 4} {
			for range 20 {
				c := config.Default().Plan.Packing
				c.Method, c.Atom, c.Pool, c.MaxAge, c.Holdback = method, atom, 1+r.IntN(100), 1+r.IntN(200), r.IntN(300)
				c.Buckets = []int{8 << r.IntN(6)}
				for packonline.IsMultiBucket(method) && len(c.Buckets) < 4 && r.IntN(3) > 0 {
					c.Buckets = append(c.Buckets, 2*c.Buckets[len(c.Buckets)-1])
				}
				c.Extra = 1
				if bad := c.Validate(); len(bad) > 0 {
					break // decompose accepts whole rows only
				}
				in := make([]int32, 500)
				most := 1 + r.Int32N(int32(2*c.Buckets[len(c.Buckets)-1]))
				for i := range in {
					in[i] = 1 + r.Int32N(most)
				}
				if have, _ := run(t, c, in); int(have.AgeMax) > c.MaxAge {
					t.Errorf("%+v: a document is %d others old", c, have.AgeMax)
				}
			}
		}
	}
}

func TestAgeQuantile_OfConcat(t *testing.T) {
	// concat with rows of 4: documents wait for 3, 2, 1 and 0 later ones.
	r, _ := run(t, packonline.Config{Method: "concat", Buckets: []int{4}}, []int32{1, 1, 1, 1})
	for q, want := range map[float64]uint32{0: 0, 0.25: 0, 0.26: 1, 0.5: 1, 0.75: 2, 0.76: 3, 1: 3} {
		if have := r.AgeQuantile(q); have != want {
			t.Errorf("quantile %v is %d, want %d", q, have, want)
		}
	}
	if r.AgeMedian != 1 || r.AgeMax != 3 {
		t.Errorf("median %d, largest %d", r.AgeMedian, r.AgeMax)
	}
}

func TestRun_EmptyInput(t *testing.T) {
	for _, method := range packonline.Methods() {
		r, rows := run(t, packonline.Config{Method: method, Buckets: []int{64}, Splice: config.Default().Plan.Packing.Splice},
			nil)
		if r.Documents != 0 || r.Sequences != 0 || r.PaddingRatio != 0 || r.AgeQuantile(0.5) != 0 || rows != "" {
			t.Errorf("%s: %+v", method, r)
		}
	}
}

// TestDetail_ContainsParametersOfMethod checks that Detail contains the parameters that the method uses, and no others.
func TestDetail_ContainsParametersOfMethod(t *testing.T) {
	for method, want := range map[string][]string{"bfd": nil, "bfd-m": {"extra"}, "seamless": {"extra", "overlap"},
		"bucketllm": {"padding_threshold"}} {
		r, _ := run(t, packonline.Config{Method: method, Buckets: []int{64}, Pool: 10, Overlap: 0.3, Extra: 5,
			PaddingThreshold: 0.02, Splice: config.Default().Plan.Packing.Splice}, []int32{70, 3})
		var have []string
		for _, name := range []string{"extra", "overlap", "padding_threshold"} {
			if r.Detail[name] != nil {
				have = append(have, name)
			}
		}
		if !slices.Equal(have, want) || r.Detail["pool"] != 10 {
			t.Errorf("%s: %v of %v, want %v", method, have, r.Detail, want)
		}
	}
}

func TestValidate_RefusesInvalidBounds(t *testing.T) {
	good := packonline.Config{Method: "bfd", Buckets: []int{8}, Atom: 1}
	if bad := simulation.Validate(good); len(bad) > 0 {
		t.Errorf("a pool of the whole input is refused: %v", bad)
	}
	good.Pool, good.MaxAge = -1, -1
	if have := fmt.Sprint(simulation.Validate(good)); !strings.Contains(have,
		"pool: -1: want 0 (the whole input) or 1 to") ||
		!strings.Contains(have, "max_age: -1") {
		t.Errorf("bad bounds are refused as %s", have)
	}
	if _, err := simulation.Run(t.Context(), good, nil, nil); err == nil {
		t.Error("bad bounds are run")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRun_ReturnsWriteErrorAndCancellation(t *testing.T) {
	c := packonline.Config{Method: "concat", Buckets: []int{4}, Atom: 1}
	if _, err := simulation.Run(t.Context(), c, []int32{9}, fullDisk{}); err == nil ||
		!strings.Contains(err.Error(), "write placements: disk full") {
		t.Errorf("with a full disk the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := simulation.Run(ctx, c, []int32{9}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt the error is %v", err)
	}
}

// TestRun_MemoryOfHugeDocumentsIsBounded checks that rows are processed in batches that are much smaller than the
// documents.
func TestRun_MemoryOfHugeDocumentsIsBounded(t *testing.T) {
	const documents, rows = 60, 1 << 17
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := simulation.Run(t.Context(), packonline.Config{Method: "concat", Buckets: []int{64}, Atom: 1, Pool: 1},
		slices.Repeat([]int32{64 * rows}, documents), nil)
	runtime.ReadMemStats(&after)
	if err != nil || r.Sequences != documents*rows {
		t.Fatalf("%+v, %v", r, err)
	}
	const most = 100 << 20 // bytes; all rows together are 280 MiB, and several times that while slices grow
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Fatalf("%d rows took %d MiB", r.Sequences, n>>20)
	}
}
