package report_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"loaderd/internal/browsertest"
	"loaderd/internal/lengths"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/internal/testscale"
	"loaderd/packonline"
)

// hostile ends scripts, comments and attributes where a page does not escape it.
const hostile = "</script><script>hacked=1</script><!--<img src=x onerror=hacked=1>\u2028'\"&"

func pageOf(t *testing.T, r *report.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// openPage opens the page of a report from a file, and waits until it is drawn.
func openPage(t *testing.T, browser context.Context, r *report.Report, v browsertest.View) *browsertest.Tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(pageOf(t, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := browsertest.Open(t, browser, "file://"+file, v)
	p.Until(`document.documentElement.dataset.figures`)
	return p
}

// allMethods returns a comparison with every kind of figure except those of sources and of documents.
func allMethods(t *testing.T) *report.Report {
	return compared(t, lengths.LogNormal(5_000, 1), []int{1024, 2048, 4096, 8192, 16384}, packonline.Methods()...)
}

func TestPage_IsOneDeterministicFile(t *testing.T) {
	r := allMethods(t)
	r.Input, r.Command = hostile, hostile
	file := pageOf(t, r)
	if file != pageOf(t, r) {
		t.Error("the page differs when it is written again")
	}
	_, data, _ := strings.Cut(file, `<script type="application/json" id="report">`)
	data, _, _ = strings.Cut(data, "</script>")
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var have, want any
	if err := json.Unmarshal([]byte(data), &have); err != nil {
		t.Fatalf("%v in %.300s", err, data)
	}
	if err := json.Unmarshal(b.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the JSON of the page is not that of compare.json, -want +got:\n%s", diff)
	}
	for _, bad := range []string{"<img", " src=\"", "href=", "url(", "@import", "\nimport", "<!--", "<script>"} {
		if strings.Contains(file, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if strings.Contains(data, "\u2028") {
		t.Error("the JSON of the page has a line separator")
	}
	if n := strings.Count(file, "</script"); n != 2 {
		t.Errorf("%d scripts end, want 2", n)
	}
	meta := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(file)
	policy := html.UnescapeString(meta[1])
	for tag, directive := range map[string]string{`<script type="module">`: "script-src", "<style>": "style-src"} {
		_, text, _ := strings.Cut(file, tag)
		text, _, _ = strings.Cut(text, "</"+tag[1:4])
		sum := sha256.Sum256([]byte(text))
		want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if len(text) < 1000 || !strings.Contains(policy, want) {
			t.Errorf("the policy is %s, want %s", policy, want)
		}
	}
	if err := r.WriteHTML(failing{}); err == nil || !strings.HasPrefix(err.Error(), "write report: ") {
		t.Errorf("with a full disk the error is %v", err)
	}
}

// misplaced lists texts that overlap within a figure or extend beyond it, invalid numbers, and elements wider than
// the window.
const misplaced = `(() => {
	const found = [];
	for (const figure of document.querySelectorAll(".chart")) {
		const frame = figure.getBoundingClientRect();
		const below = (a, b) => a.top >= b.bottom - 4;
		const after = (a, b) => a.left >= b.right - 1;
		const apart = (a, b) => after(a, b) || after(b, a) || below(a, b) || below(b, a);
		const inside = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
		const boxes = [...figure.querySelectorAll(".plot :is(text, span)")]
			.map((t) => [t.textContent, t.getBoundingClientRect(), t.closest(".plot > svg")?.getBoundingClientRect()])
			.filter(([text, a]) => text && a.width);
		boxes.forEach(([text, a, drawing], i) => {
			if (!inside(a, drawing ?? frame)) found.push(figure.id + ": " + text + " leaves its frame");
			for (const [other, b] of boxes.slice(i + 1)) {
				if (!apart(a, b)) found.push(figure.id + ": " + text + " overlaps " + other);
			}
		});
		if (/NaN|undefined|Infinity|null/.test(figure.outerHTML)) found.push(figure.id + " has a number that is none");
		if (!figure.querySelector(".plot svg[aria-label]")) found.push(figure.id + " has no drawing");
	}
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the window");
	return found;
})()`

// The page contains every figure with its table, correctly placed at all widths. It loads nothing and logs no errors.
func TestPage_DrawsEveryFigure(t *testing.T) {
	browser := browsertest.Chromium(t)
	always := []string{"Document lengths", "Padding", "Documents split", "Documents per row", "Document age",
		"Attention", "Speed"}
	related := []string{"Burstiness of rows", "Recurring tokens"}
	for name, x := range map[string]struct {
		report *report.Report
		more   []string // titles in addition to those in always
	}{
		"all methods":    {allMethods(t), []string{"Tokens dropped or repeated", "Row lengths", "Fair samples"}},
		"one":            {compared(t, lengths.LogNormal(100, 1), []int{2048}, "bfd"), []string{"Fair samples"}},
		"one document":   {compared(t, []int32{1}, []int{2048}, "concat", "bfd"), nil},
		"equal lengths":  {compared(t, []int32{1500, 1500, 1500}, []int{2048}, "concat", "bfd"), nil},
		"long documents": {compared(t, []int32{1, math.MaxInt32 / 2}, []int{4096}, "concat"), []string{"Fair samples"}},
		"exact fits":     {compared(t, []int32{64, 64, 256}, []int{64, 256}, "naive", "decompose"), []string{"Row lengths"}},
		"rows of no size": {compared(t, lengths.LogNormal(1000, 1), []int{2, 3, 5, 7, 11, 13, 17, 19, 23}, "naive"),
			[]string{"Row lengths"}},
		"documents": {documents(t, 30, packonline.Methods()...),
			append([]string{"Row lengths", "Fair samples", "Tokens dropped or repeated"}, related...)},
		"a row":           {documents(t, 1, "concat"), append([]string{"Fair samples"}, related...)},
		"no two in a row": {documents(t, 0, "concat", "splice"), []string{"Row lengths", "Fair samples"}},
		"a mixture":       {mixed(t, 3, 2000, "concat", "bfd"), []string{"Shares of sources", "Fair samples"}},
		"one source":      {mixed(t, 1, 2000, "concat", "bfd"), []string{"Shares of sources", "Fair samples"}},
		"many sources":    {mixed(t, 40, 200, "concat"), []string{"Shares of sources", "Fair samples"}},
		"a short mixture": {mixed(t, 2, 3, "concat"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPage(t, browser, x.report, browsertest.Usual)
			have := browsertest.Eval[[]string](p, `[...document.querySelectorAll(".chart h2")].map((h) => h.textContent)`)
			want := slices.Concat(always, x.more)
			slices.Sort(have)
			slices.Sort(want)
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("the figures, -want +got:\n%s", diff)
			}
			for _, width := range []int64{420, 1280, 2560} {
				p.Do(chromedp.EmulateViewport(width, 900))
				p.Until(`[...document.querySelectorAll(".plot > svg")]
					.every((s) => s.getAttribute("width") == s.parentElement.clientWidth)`)
				for _, what := range browsertest.Eval[[]string](p, misplaced) {
					t.Errorf("%d pixels: %s", width, what)
				}
			}
			p.Run(`document.querySelectorAll("details").forEach((d) => (d.open = true))`)
			p.Until(`[...document.querySelectorAll("details")].every((d) => d.querySelector("tbody tr td"))`)
			tables := browsertest.Eval[string](p, `[...document.querySelectorAll("details")].map((d) => d.innerText).join()`)
			if regexp.MustCompile(`NaN|undefined|Infinity`).MatchString(tables) {
				t.Errorf("a table has a number that is none: %s", tables)
			}
		})
	}
}

func TestPage_WithoutResults(t *testing.T) {
	r := compared(t, nil, []int{8})
	r.Skipped = append(r.Skipped, report.SkippedMethod{Method: "bfd", Reason: hostile})
	p := openPage(t, browsertest.Chromium(t), r, browsertest.Usual)
	p.Says("main", "No method packs into these rows", "Skipped: bfd: </script>")
	if n := browsertest.Eval[int](p, `document.querySelectorAll(".chart, table").length`); n != 0 {
		t.Errorf("%d figures and tables of nothing", n)
	}
}

// Names of sources, files and commands are displayed as text, whatever characters they contain.
func TestPage_HostileNames(t *testing.T) {
	r := mixed(t, 2, 2000, "concat", "bfd")
	r.Input, r.Command = hostile, hostile
	for _, x := range r.Results {
		x.Sources[hostile] = x.Sources["source-01"]
		delete(x.Sources, "source-01")
	}
	p := openPage(t, browsertest.Chromium(t), r, browsertest.Light(420, 900))
	shown := strings.ReplaceAll(hostile, "\u2028", " ")
	p.Says("#sources .legend", shown)
	p.Says("main", "Lengths from "+shown, "Created with "+shown)
	if browsertest.Eval[bool](p, `"hacked" in window || document.scripts.length !== 2 || document.images.length > 0`) {
		t.Error("a name became a part of the page")
	}
	for _, what := range browsertest.Eval[[]string](p, misplaced) {
		t.Error(what)
	}
}

// axe-core reports no accessibility problems, in light and dark mode, at all widths.
func TestPage_Accessible(t *testing.T) {
	rules, browser := browsertest.Axe(t), browsertest.Chromium(t)
	r := mixed(t, 3, 2000, "concat", "bfd")
	all := append(make([]float64, 19), 1) // in one twentieth
	r.Results[1].Sample = &simulation.Sample{Below: 2048, Share: 0.05, Shares: all, Deviation: 19}
	for _, v := range testscale.Of([]browsertest.View{browsertest.Dark(420, 900), browsertest.Usual}, browsertest.Sizes) {
		t.Run(fmt.Sprintf("%d-%v", v.Width, v.Dark), func(t *testing.T) {
			p := openPage(t, browser, r, v)
			p.Run(`document.querySelectorAll("details").forEach((d) => (d.open = true))`)
			p.Until(`[...document.querySelectorAll("details")].every((d) => d.querySelector("tbody"))`)
			for _, b := range p.Barriers(rules) {
				t.Error(b)
			}
			if n := browsertest.Eval[int](p, `document.querySelectorAll("tr.best, g.best").length`); n < 9 {
				t.Errorf("the method to take is marked %d times", n)
			}
		})
	}
}

func TestPage_WithoutScripts(t *testing.T) {
	p := openPage(t, browsertest.Chromium(t), allMethods(t), browsertest.Usual)
	disabled := emulation.SetScriptExecutionDisabledParams{Value: true}
	browsertest.Command(p, emulation.SetScriptExecutionDisabled, disabled)
	p.Do(chromedp.Reload())
	disabled.Value = false
	browsertest.Command(p, emulation.SetScriptExecutionDisabled, disabled)
	p.Says("main", "pack with", "need JavaScript", "compare.json", "All figures", "tokens that are never trained on")
}

// On paper the page has light colors, and its figures are drawn for two columns.
func TestPage_Prints(t *testing.T) {
	p := openPage(t, browsertest.Chromium(t), allMethods(t), browsertest.Dark(2560, 1440))
	p.Run(`width = () => document.querySelector("#lengths svg").getAttribute("width");
		addEventListener("beforeprint", () => { printed = width(); })`)
	pdf := browsertest.Command(p, page.PrintToPDF, page.PrintToPDFParams{}).Data
	if !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("it prints %.20q", pdf)
	}
	if widths := browsertest.Eval[string](p, `printed + " " + (width() > 600)`); widths != "320 true" {
		t.Errorf("drawn on paper and after it: %s", widths)
	}
	browsertest.Command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print",
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	p.Do(chromedp.EmulateViewport(703, 1000))
	color := browsertest.Eval[string](p, `getComputedStyle(document.querySelector("h1")).color`)
	if color != "rgb(22, 32, 43)" {
		t.Errorf("the title is %s on paper", color)
	}
	p.Run(`dispatchEvent(new Event("beforeprint"))`)
	for _, what := range browsertest.Eval[[]string](p, misplaced) {
		t.Error(what)
	}
}
