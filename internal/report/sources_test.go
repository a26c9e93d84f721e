package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/internal/lengths"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// mixed returns a comparison on a mixture with the given number of sources and of documents per source.
func mixed(t *testing.T, sources, documents int, methods ...string) *report.Report {
	t.Helper()
	m := &simulation.Mixture{Config: mixture.Config{Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll},
		Sources: map[string]mixture.Source{}},
		Lengths: map[string][]int32{}}
	for i := range sources {
		name := fmt.Sprintf("source-%02d", i)
		m.Config.Sources[name] = mixture.Source{Weight: float64(i + 1), Epochs: 1, MinTokens: 100}
		m.Lengths[name] = lengths.LogNormal(documents, uint64(i))
	}
	a, err := m.Arrivals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &report.Report{Input: "<lengths>", Command: "loaderd compare", Rows: []int{2048}, Pool: 500, MaxAge: 2000,
		Lengths: report.DescribeLengths(a.Lengths, 2048)}
	for _, method := range methods {
		result, err := simulation.RunMixture(t.Context(), packonline.Config{Method: method, Buckets: r.Rows, Atom: 1,
			Pool: 500, MaxAge: 2000}, a, 2048, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Add(result, nil)
	}
	r.ChooseBest()
	return r
}

// A comparison on a mixture contains values for every source and method.
func TestReport_ValuesPerSource(t *testing.T) {
	told := func(r *report.Report) (table, page string) {
		var text, html bytes.Buffer
		if err := errors.Join(r.WriteTable(&text), r.WriteHTML(&html)); err != nil {
			t.Fatal(err)
		}
		return text.String(), html.String()
	}
	r := mixed(t, 3, 2000, "concat", "bfd")
	text, page := told(r)
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	_, sources, _ := strings.Cut(text, "\nSources:\n\n")
	sources, by, ok := strings.Cut(sources, "\nBy source:\n\n")
	if !ok || strings.Count(sources, "\nsource-") != 3 || strings.Count(by, "\nsource-") != 6 ||
		!strings.Contains(by, "\nsource-01, bfd ") || strings.Contains(by[:300], "*") {
		t.Errorf("the tables are\n%s", text)
	}
	for _, title := range []string{"Sources", "By source"} {
		if n := strings.Count(page, "<h2>"+title+"</h2>"); n != 1 {
			t.Errorf("the page has %q %d times", title, n)
		}
	}
	if !strings.Contains(page, `<th scope="row">source-02, bfd</th>`) {
		t.Error("the page does not name its sources")
	}
	if text, page = told(compared(t, []int32{5}, []int{8}, "concat")); strings.Contains(text, "ource") ||
		strings.Contains(page, "<h2>Sources") {
		t.Error("sources where there are none")
	}
}
