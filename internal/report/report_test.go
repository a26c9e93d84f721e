package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/config"
	"loaderd/internal/lengths"
	"loaderd/internal/relatedness"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// compared runs methods on the given lengths.
func compared(t *testing.T, in []int32, rows []int, methods ...string) *report.Report {
	t.Helper()
	r := &report.Report{Input: "<lengths>", Command: "loaderd compare", Rows: rows, Pool: 500, MaxAge: 2000,
		Lengths: report.DescribeLengths(in, rows[len(rows)-1])}
	for _, m := range methods {
		c := packonline.Config{Method: m, Buckets: rows, Atom: 1, Pool: r.Pool, MaxAge: r.MaxAge, Overlap: 0.3, Extra: 50,
			PaddingThreshold: 0.02,
			Splice:           config.Default().Plan.Packing.Splice}
		if !packonline.IsMultiBucket(m) {
			c.Buckets = rows[len(rows)-1:]
		}
		if bad := simulation.Validate(c); len(bad) > 0 {
			r.Skipped = append(r.Skipped, report.SkippedMethod{Method: m, Reason: bad[0].Error()})
			continue
		}
		result, err := simulation.Run(t.Context(), c, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Add(result, nil)
	}
	r.ChooseBest()
	return r
}

func TestDescribeLengths_StatisticsAndHistogram(t *testing.T) {
	d := report.DescribeLengths([]int32{8, 1, 2, 3, 2}, 2)
	histogram := d.Histogram
	d.Histogram = nil
	if diff := cmp.Diff(report.Lengths{Documents: 5, Tokens: 16, Min: 1, Median: 2, Mean: 3.2, P90: 8, P99: 8, Max: 8,
		Longer: 0.4, Pieces: 9}, d); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var documents, tokens int64
	for i, b := range histogram {
		documents, tokens = documents+b.Documents, tokens+b.Tokens
		if b.From >= b.To || i > 0 && b.From != histogram[i-1].To {
			t.Errorf("bin %d is %+v", i, b)
		}
	}
	if documents != 5 || tokens != 16 || histogram[0].From != 1 || histogram[0].Documents != 1 {
		t.Errorf("the histogram is %+v", histogram)
	}
	for _, in := range [][]int32{nil, {1}, {math.MaxInt32}, {1, math.MaxInt32}, {1500, 1500}} {
		d := report.DescribeLengths(in, 2048)
		var documents int64
		for _, b := range d.Histogram {
			documents += b.Documents
		}
		if d.Documents != len(in) || documents != int64(len(in)) || len(d.Histogram) > 70 {
			t.Errorf("%v is described as %+v", in, d)
		}
	}
}

// TestReport_BestMethodMeetsCriteria checks that the chosen method meets the criteria of the choice.
func TestReport_BestMethodMeetsCriteria(t *testing.T) {
	r := compared(t, lengths.LogNormal(20_000, 1), []int{2048}, "concat", "pad", "bfd", "bfd-m", "seamless")
	if r.Best != "bfd" {
		t.Errorf("%s is chosen among %v", r.Best, r.Results)
	}
	why := strings.Join(r.Why, " ")
	for _, part := range []string{
		"bfd cuts only the 10.8 % of the documents that are longer than the longest row, and only as often as that " +
			"requires, and drops and repeats nothing.",
		"concat pads less, 0.0022 %, but makes 32 needless cuts in a hundred documents.",
	} {
		if !strings.Contains(why, part) {
			t.Errorf("%q does not contain %q", why, part)
		}
	}
	r = compared(t, []int32{5, 3, 8, 2}, []int{8}, "bfd")
	if have, want := strings.Join(r.Why, " "),
		"bfd keeps every document whole, and drops and repeats nothing. Padding takes 25.0 % of its slots: whole "+
			"documents of these lengths do not fill these rows. "; !strings.HasPrefix(have, want) {
		t.Errorf("it reports %q, want %q", have, want)
	}
	// With several row lengths, methods that are equal otherwise are ranked by the cost of their rows.
	r = compared(t, []int32{64, 64, 64, 256}, []int{64, 256}, "bfd", "naive")
	if r.Best != "naive" {
		t.Errorf("%s is chosen: %v", r.Best, r.Why)
	}
	// If all documents are longer than a row, the method with the fewest cuts is chosen.
	r = compared(t, []int32{100, 100, 100, 100}, []int{64}, "concat", "bfd", "decompose")
	if have, want := strings.Join(r.Why, " "),
		"bfd cuts no document more often than rows of 64 tokens demand, and drops and repeats nothing."; r.Best != "bfd" ||
		!strings.HasPrefix(have, want) {
		t.Errorf("%s is chosen: %s", r.Best, have)
	}
	// The report mentions that most documents do not wait.
	r = compared(t, []int32{8, 8, 8, 3, 5, 8}, []int{8}, "bfd")
	if have, want := strings.Join(r.Why, " "),
		"Half of the documents wait for none, and none waits for more than 2 later ones. The documents are too few to "+
			"check that every part of them is representative."; !strings.HasSuffix(have, want) {
		t.Errorf("it reports %q", have)
	}
	if r = compared(t, nil, []int{8}); r.Best != "" || len(r.Why) > 0 {
		t.Errorf("of nothing %s is chosen: %v", r.Best, r.Why)
	}
}

func TestTable_FitsWidth(t *testing.T) {
	r := compared(t, lengths.LogNormal(5_000, 1), []int{1024, 2048, 4096}, append(packonline.Methods(), "bfd")...)
	// The widest possible values.
	wide := *r.Results[0].Result
	wide.Method, wide.DocumentsPerSecond, wide.RepeatedTokens, wide.DroppedTokens = "bucketllm-v0", 199.9e6,
		wide.Tokens/300_000, wide.Tokens/300_000
	wide.PaddingRatio, wide.TruncationRatio, wide.ConcatenationRatio, wide.AgeMax, wide.AgeMedian = 0.0000001234,
		0.00001234, 1234.5, 999_499, 999_499
	wide.NotWhole, wide.Sample = wide.Documents, &simulation.Sample{Below: 2048, Share: 0.05, Deviation: 18.9999}
	r.Add(&wide, nil)
	r.Skipped = append(r.Skipped, report.SkippedMethod{Method: "splice",
		Reason: strings.Repeat("not with these rows ", 9)})
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 80 {
			t.Errorf("%d characters: %s", n, l)
		}
	}
	if all := strings.Join(strings.Fields(out.String()), " "); !strings.HasPrefix(all, "5,000 documents, ") ||
		!strings.Contains(all,
			" Rows of 1,024, 2,048 and 4,096 tokens (methods with one row length: 4,096); a pool of 500 pieces") {
		t.Errorf("the table begins\n%s", strings.Join(lines[:4], "\n"))
	}
	// Only the best padding has a star.
	var stars []string
	_, quality, _ := strings.Cut(out.String(), "\nmethod ")
	quality, _, _ = strings.Cut(quality, "\n\n")
	for _, l := range strings.Split(quality, "\n") {
		if f := strings.Fields(l); strings.HasSuffix(f[1], "*") {
			stars = append(stars, f[1])
		}
	}
	if diff := cmp.Diff([]string{"0.000012*"}, stars); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := r.WriteTable(failing{}); err == nil || err.Error() != "write table: disk full" {
		t.Errorf("with a full disk the error is %v", err)
	}
}

// A method is not recommended if a part of its run is not representative.
func TestReport_RecommendsNoUnrepresentativeMethod(t *testing.T) {
	with := func(deviations ...float64) *report.Report {
		r := &report.Report{Rows: []int{8}}
		for i, d := range deviations {
			r.Results = append(r.Results, report.Result{Result: &simulation.Result{Method: string(rune('a' + i)), Documents: 20,
				Pieces: 20, Sample: &simulation.Sample{Below: 8, Share: 0.5, Deviation: d}}})
		}
		r.ChooseBest()
		return r
	}
	if r := with(1.06, 0.2); r.Best != "b" {
		t.Errorf("%q is recommended, want b", r.Best)
	}
	r := with(1.06, 0.7)
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil || r.Best != "" || !strings.Contains(b.String(), "No method is recommended: ") {
		t.Errorf("%q is recommended, %v: %s", r.Best, err, &b)
	}
}

// TestTable_StarsMarkBestValues checks that the best value of a column has a star: the lowest, or the highest for
// speeds. There is no star if most methods share the value.
func TestTable_StarsMarkBestValues(t *testing.T) {
	r := &report.Report{Rows: []int{8}}
	for _, x := range []simulation.Result{
		{Method: "a", Documents: 20, NotWhole: 2, Sample: &simulation.Sample{Below: 8, Share: 0.5, Deviation: 0.123},
			Tokens: 100, PaddingRatio: 0.5,
			TruncationRatio: 0.1, DocumentsPerSecond: 2000, AgeMax: 7, ConcatenationRatio: 1.5},
		{Method: "b", Documents: 20, NotWhole: 4, Sample: &simulation.Sample{Below: 8, Share: 0.5, Deviation: 0.005},
			Tokens: 100, PaddingRatio: 0.25,
			TruncationRatio: 0.1, DocumentsPerSecond: 3000, AgeMax: 7, ConcatenationRatio: 1.25},
		{Method: "c", Documents: 20, NotWhole: 1, Tokens: 100, PaddingRatio: 0.25, TruncationRatio: 0.2, DroppedTokens: 1,
			RepeatedTokens:     2,
			DocumentsPerSecond: 1000, AgeMax: 8, ConcatenationRatio: 0.0312},
		{Method: "d", Documents: 20, NotWhole: 4, Tokens: 100, PaddingRatio: 0.5, TruncationRatio: 0.2,
			DocumentsPerSecond: 1000, AgeMax: 9},
	} {
		r.Add(&x, nil)
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	stars := make([][]string, 4) // cells of all tables per method
	for _, l := range strings.Split(out.String(), "\n") {
		if f := strings.Fields(l); len(f) > 0 && len(f[0]) == 1 && strings.HasPrefix(l, f[0]) && f[0] >= "a" {
			k := f[0][0] - 'a'
			if stars[k] != nil {
				f = f[1:]
			}
			stars[k] = append(stars[k], f...)
		}
	}
	for k, f := range stars {
		f[len(f)-2] += f[len(f)-1] // 3.00 k*
		stars[k] = f[:len(f)-1]
	}
	want := [][]string{
		{"a", "50.0", "10.0*", "10.0", "0", "0", "1.50", "0", "7*", "12.3", "0", "0", "2.00k"},
		{"b", "25.0*", "10.0*", "20.0", "0", "0", "1.25", "0", "7*", "0.50", "0", "0", "3.00k*"},
		{"c", "25.0*", "20.0", "5.0*", "1.0", "2.0", "0.031", "0", "8", "-", "0", "0", "1.00k"},
		{"d", "50.0", "20.0", "20.0", "0", "0", "0.00", "0", "9", "-", "0", "0", "1.00k"},
	}
	if diff := cmp.Diff(want, stars); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTable_SampleDeviation checks that the table contains the deviation of the worst twentieth of every method's run,
// and the share of documents that are not whole. For runs that are too short, the deviation is a dash.
func TestTable_SampleDeviation(t *testing.T) {
	in := lengths.LogNormal(20_000, 1)
	r := compared(t, in, []int{2048}, "concat", "bfd-m", "seamless")
	short, err := simulation.Run(t.Context(), packonline.Config{Method: "pad", Buckets: []int{2048}, Atom: 1, Pool: 500},
		[]int32{5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Add(short, nil)
	if short.Sample != nil {
		t.Fatalf("a run of one row has the sample %+v", short.Sample)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	have := map[string]map[string]string{} // column -> method -> value
	var names []string
	for _, l := range strings.Split(table.String(), "\n") {
		f := strings.Fields(strings.NewReplacer("not whole", "not-whole", " k", "k", " M", "M", "*", "").Replace(l))
		switch {
		case len(f) == 0:
			names = nil
		case f[0] == "method":
			names = f
		case len(f) == len(names):
			for i, name := range names {
				if have[name] == nil {
					have[name] = map[string]string{}
				}
				have[name][f[0]] = f[i]
			}
		}
	}
	for _, x := range r.Results {
		off := "-"
		if x.Sample != nil {
			off = fmt.Sprintf("%.3g", 100*x.Sample.Deviation)
		}
		if a, b := have["sample"][x.Method], off; a != b && !near(a, b) {
			t.Errorf("%s: sample is %q, want %s in\n%s", x.Method, a, b, &table)
		}
		if a, b := have["not-whole"][x.Method], fmt.Sprint(100*float64(x.NotWhole)/float64(x.Documents)); !near(a, b) {
			t.Errorf("%s: not whole are %q, want %s in\n%s", x.Method, a, b, &table)
		}
	}
	all := strings.Join(strings.Fields(table.String()), " ")
	if want := "sample: how far the share of tokens that are of documents shorter than 2,048 is off " +
		"in the worst twentieth of the run"; !strings.Contains(all, want) {
		t.Errorf("%q is not in\n%s", want, &table)
	}
	table.Reset()
	if err := compared(t, []int32{5}, []int{8}, "concat").WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), "sample:") {
		t.Error("a run of one row tells how fair its parts are")
	}
}

// near reports whether two values are equal apart from rounding.
func near(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && math.Abs(x-y) <= 0.05*y
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestJSON_FieldNames checks the names in the JSON, on which other programs depend.
func TestJSON_FieldNames(t *testing.T) {
	r := compared(t, []int32{5, 3, 8, 2}, []int{8}, "bfd")
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var have map[string]any
	if err := json.Unmarshal(out.Bytes(), &have); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"input", "command", "lengths", "rows", "pool", "max_age", "best", "why", "results"} {
		if have[name] == nil {
			t.Errorf("%s is not there: %s", name, &out)
		}
	}
	result := have["results"].([]any)[0].(map[string]any)
	if result["method"] != "bfd" || result["padding_tokens"] != 6.0 || len(result["ages"].([]any)) != 8 ||
		result["detail"] == nil {
		t.Errorf("the result is %v", result)
	}
	if err := r.WriteJSON(failing{}); err == nil || err.Error() != "write comparison: disk full" {
		t.Errorf("with a full disk the error is %v", err)
	}
}

// documents returns a comparison of documents in which each method has the given number of rows of related documents,
// and earlier methods have higher burstiness.
func documents(t *testing.T, rows int, methods ...string) *report.Report {
	t.Helper()
	r := compared(t, lengths.LogNormal(200, 1), []int{1024, 2048}, methods...)
	results := r.Results
	r.Results = nil
	for i, x := range results {
		var docs []relatedness.Document
		var packed [][]relatedness.Piece
		random := rand.New(rand.NewPCG(uint64(i), 1))
		for k := range rows {
			var row []relatedness.Piece
			for n := range 3 {
				d := relatedness.Document{Path: fmt.Sprintf("folder/%d/%d", k, n/2)}
				for range 50 + random.IntN(300) {
					d.IDs = append(d.IDs, int32(random.ExpFloat64()*float64(20+30*i)))
				}
				row = append(row, relatedness.Piece{Document: len(docs), Length: int32(len(d.IDs))})
				docs = append(docs, d)
			}
			packed = append(packed, row)
		}
		f := relatedness.Measure(docs, packed)
		r.Add(x.Result, &f)
	}
	return r
}

// TestReport_Relatedness checks that table and JSON contain the relatedness of documents in a row, if documents were
// packed.
func TestReport_Relatedness(t *testing.T) {
	r := documents(t, 20, packonline.Methods()...)
	// The widest possible values.
	r.Results[7].Method = "bucketllm-v0"
	*r.Results[7].Related = relatedness.Metrics{Rows: 1, Neighbours: 1, NeighbourCosine: 0.999, SameFolder: 0.9994,
		SameFile: 0.9994, NearDuplicates: 0.00012345,
		ZipfMLE: relatedness.Estimate{Mean: 2.4427, Std: 0.9999}, ZipfZeta: relatedness.Estimate{Mean: 4, Std: 1.4999},
		Zipfs: []float64{2.4427}, Counts: []float64{1}}
	var table, data bytes.Buffer
	if err := errors.Join(r.WriteTable(&table), r.WriteJSON(&data)); err != nil {
		t.Fatal(err)
	}
	_, second, ok := strings.Cut(table.String(), "\nDocuments that share a row:\n\n")
	if !ok {
		t.Fatalf("no table of related documents in\n%s", &table)
	}
	for _, l := range strings.Split(second, "\n") {
		if n := utf8.RuneCountInString(l); n > 80 {
			t.Errorf("%d characters: %s", n, l)
		}
	}
	if n := strings.Count(second, "\n"+r.Results[0].Method+" "); n != 2 {
		t.Errorf("%s is there %d times, want once in each of two tables, in\n%s", r.Results[0].Method, n, second)
	}
	var have struct {
		Results []struct {
			Method  string
			Related relatedness.Metrics
		}
	}
	if err := json.Unmarshal(data.Bytes(), &have); err != nil {
		t.Fatal(err)
	}
	for i, x := range have.Results {
		want := *r.Results[i].Related
		want.Zipfs, want.Counts = nil, nil
		if diff := cmp.Diff(want, x.Related); diff != "" {
			t.Errorf("%s: -want +got:\n%s", x.Method, diff)
		}
	}
	// Without two documents in any row, and for lengths, relatedness is omitted.
	for _, r := range []*report.Report{documents(t, 0, "concat"), compared(t, []int32{5}, []int{8}, "concat")} {
		var out bytes.Buffer
		if err := errors.Join(r.WriteTable(&out), r.WriteHTML(&out)); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); strings.Contains(s, "Documents that share a row:") ||
			strings.Contains(s, "<h2>Documents that share a row") {
			t.Error("figures of related documents where there are none")
		}
	}
}
