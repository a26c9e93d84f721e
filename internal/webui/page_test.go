package webui_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"loaderd/internal/api"
	"loaderd/internal/browsertest"
	"loaderd/internal/testscale"
	"loaderd/internal/webui"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// cutLabels returns the labels that extend beyond their chart.
const cutLabels = `[...document.querySelectorAll(".plot svg text")].filter((t) => {
	const [a, b] = [t.getBoundingClientRect(), t.closest("svg").getBoundingClientRect()];
	return a.left < b.left || a.right > b.right;
}).map((t) => t.textContent)`

// Every section of the page shows the values of the JSON.
func TestPage_ShowsEverySection(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) { f.change = func(s *api.Status) { s.Planned = 7271 } })
	s := serve(t, f)
	// The status 404 is expected for a step that is not planned, requested below.
	p := browsertest.Open(t, browsertest.Chromium(t), s.URL, browsertest.Usual, "404")
	ready(p)

	p.Says("#top", "Waiting", "Rank 3 of 4 holds the others (40 steps behind)",
		"What to do: look at rank 3 of job train", "demo", "7,271 steps planned", "steps sent", "steps consumed",
		"7,100 steps committed",
		"≈ 21,400 steps in total", "26 min until the end", "4 ranks reading", "20 MiB/s sent to ranks", "0.31 % padding",
		"12.7 % documents split")
	p.Says("#flow", "Stored 900 MiB of 1 GiB in stream DOCS_web full in about 40 min",
		"Published 812k of 990k documents accepted by the planner", "Tokenized 61 MiB of 64 MiB",
		"Pool 4,000 of 4,096 pieces", "Shuffle window 1,020 of 1,024 atoms", "Bucket queues 88 of 320 rows",
		"Planned ahead 64 of 64 steps beyond", "9.6 steps/s", "Committed 7,100 of")
	if limiting := browsertest.Eval[string](p,
		`[...document.querySelectorAll(".stage[data-limits]")].map((x) => x.innerText).join("|")`); !strings.Contains(
		limiting, "Read") || !strings.Contains(limiting, "Blocks the run") || strings.Contains(limiting, "|") {
		t.Errorf("what limits: %q", limiting)
	}
	p.Says("#sources", "web 71.2 % 70.0 % 70.2 % 5.2G 1 of 1 160,000 open, 12 documents undecodable",
		"math 28.8 % 30.0 % 29.8 % 2.2G 2 of 4 17,600 dry for 3 min")
	p.Says("#ranks-section", "Job train: 4 ranks, 7,2", "Rank 3 holds the others (40 steps behind)",
		"3 of 4", "40 steps", "10.0.0.13:5015", "gpu-02.812", "31 min")
	if first := p.Text("#ranks-table tbody tr:first-child th"); first != "3 of 4" {
		t.Errorf("the first rank of the table is %s, not who is furthest behind", first)
	}
	p.Says("#commits", "train before step 7,100 171 steps", "train/eval before step 7,180")
	p.Says("#skipped-section", "undecodable 15 undecodable see the dead letters",
		"masked 1,200 without a token that has a loss", "<script>alert(1)</script>")
	p.Says("#dead-section", "15 documents could not be decoded", "1 more not stored yet", "12 not UTF-8",
		"3 token out of range", "Document web/599870", "byte 0xff", "<script>alert(1)</script>")
	p.Says("#events", "source math has had nothing new for 10 s What to do: look at the producer of math",
		"gpu-01.4711 leads, term 3")
	p.Says("#daemons", "gpu-01.4711 (this page) leader, term 3 2", "gpu-02.812 follower", "gpu-03.90 follower 0",
		"12 s ago", "0.19.2", "grpc://gpu-02:8815")
	p.Says("#actions", "Flush", "Seal", "Change the weights", "Store a checkpoint")
	if links := browsertest.Eval[string](p,
		`[...document.querySelectorAll("#daemons a")].map((a) => a.href).join(" ")`); links != "http://gpu-02:9815/" {
		t.Errorf("links to daemons: %s", links)
	}
	p.Says("#charts", "Throughput", "Speed", "tokens/s 7", "published 1,", "Waiting", "Pending steps",
		"not read 40")
	openCharts(p)
	p.Says("#charts", "Shares of sources", "web 69.9 %", "Buckets", "1,024", "Padding and continued spans",
		"Lengths by step", "Lengths of the whole run", "Split and related")
	if cut := browsertest.Eval[[]string](p, cutLabels); len(cut) > 0 {
		t.Errorf("labels of charts are cut off: %q", cut)
	}
	if label := browsertest.Eval[string](p,
		`document.querySelector("#chart-age svg").getAttribute("aria-label")`); !strings.Contains(label,
		"oldest buffered") || strings.Contains(label, "oldest in the step") {
		t.Errorf("a run with several sources shows ages so: %s", label)
	}

	t.Run("more events", func(t *testing.T) {
		p.Click("#events-more")
		if n := browsertest.Eval[int](p, `document.querySelectorAll("#events > li").length`); n != 17 {
			t.Errorf("%d events", n)
		}
	})
	t.Run("the last minutes", func(t *testing.T) {
		before := browsertest.Eval[string](p, `document.querySelector("#chart-shares svg").getAttribute("aria-label")`)
		p.Click("input[value=late] + span")
		after := browsertest.Eval[string](p, `document.querySelector("#chart-shares svg").getAttribute("aria-label")`)
		if !strings.Contains(before, "from step 0 to 7,170") || !strings.Contains(after, "from step 7,080 to 7,199") {
			t.Errorf("%s, then %s", before, after)
		}
	})
	t.Run("the table behind a chart", func(t *testing.T) {
		p.Click("#chart-padding summary")
		p.Until(`document.querySelectorAll("#chart-padding tbody tr").length > 10`)
		p.Says("#chart-padding table", "7,199")
	})
	t.Run("a step", func(t *testing.T) { looksIntoAStep(t, p) })
	t.Run("a history of nothing", func(t *testing.T) {
		before := browsertest.Eval[string](p, `document.querySelector("#chart-buckets .empty")?.textContent ?? ""`)
		f.set(func(f *fake) {
			f.past = api.History{Run: "demo", Buckets: []int{1024}, Steps: api.StepSeries{Buckets: [][]uint64{nil},
				Sources: [][]int64{nil}}, RecentSteps: api.StepSeries{Buckets: [][]uint64{nil}}}
		})
		p.Until(`document.querySelector("#chart-buckets .empty")?.textContent === "No data yet"`)
		if note := browsertest.Eval[bool](p, `document.querySelector("#history-note").hidden`); before != "" || !note {
			t.Errorf("before it was %q; the note shows %s", before, p.Text("#history-note"))
		}
		f.set(func(f *fake) { f.past = madeUpHistory() })
	})
	t.Run("another verdict", func(t *testing.T) {
		f.set(func(f *fake) {
			f.change = func(s *api.Status) {
				s.Verdict = diagnosis.Verdict{Health: diagnosis.Failing, Sentence: "The NATS server is out of reach for 12 s",
					Advice: "check it"}
				s.Sources, s.Ranks, s.Commits, s.Flow = nil, nil, nil, nil
				s.Dead = api.DeadStatus{}
			}
		})
		p.Until(`document.querySelector("#health").textContent === "Failing"`)
		p.Says("#announce", "Failing: The NATS server is out of reach")
		p.Says("#ranks-section", "No rank is reading")
		p.Says("#commits-section", "No job has committed")
		p.Says("#dead-section", "No dead letters")
		if shown := browsertest.Eval[bool](p,
			`!document.querySelector("#sources-section").hidden || Boolean(document.querySelector("#action-mix"))`); shown {
			t.Error("a run with one stream has a section of sources, or an action to mix them")
		}
	})
}

// looksIntoAStep uses the step inspector to display the content of a step.
func looksIntoAStep(t *testing.T, p *browsertest.Tab) {
	defer p.In(t)()
	p.Enter("#step", "12")
	p.Until(`document.querySelectorAll(".row").length === 16`)
	p.Says("#step-note", "Step 12: 16 rows of 1024 tokens")
	p.Says("#inspector .command", "loaderd ledger --step 12 --documents --daemon grpc://gpu-01:8815")
	widths := browsertest.Eval[[]float64](p, `(() => { const row = document.querySelectorAll(".row")[2]; const cells = [...row.querySelectorAll("[role=gridcell]")];
		const all = cells.reduce((n, c) => n + c.getBoundingClientRect().width, 0);
		return cells.map((c) => c.getBoundingClientRect().width / all - c.style.flexGrow / 1024); })()`)
	for i, off := range widths {
		if off > 0.01 || off < -0.01 {
			t.Errorf("piece %d of row 2 is %f of the row too wide", i, off)
		}
	}
	p.Run(`document.querySelectorAll(".row")[15].querySelector(".piece").focus()`)
	p.Says(".about-piece", "Row 15:", "#7, from token 3", "Id inner", "Index in message 7", "Tokens with loss",
		"Weight 0.5", `Meta {"lang":"de"}`)
	p.Run(`document.querySelector(".piece").focus()`)
	p.Says(".about-piece", "Row 0:", "Source", "Id crawl-5", "Path web/part-", "published 3 h ago")
	p.Press(kb.ArrowRight, kb.ArrowDown, kb.Enter)
	p.Until(`document.querySelectorAll(".token").length >= 30`)
	p.Says(".about-piece", "Row 1:", "loader packs", "<b>not bold</b>", "the document has 4,000")
	p.Enter("#document", "crawl-7")
	p.Until(`document.querySelectorAll("#found li").length === 2`)
	p.Says("#found", "Step 12, row 3", "512 tokens of web/7#3 from 12", "Step 19, row 9")
	p.Click("#found li:nth-child(2) button")
	p.Until(
		`document.querySelector("#step").value === "19" && document.activeElement?.parentElement?.classList.contains("marked")`)
	p.Enter("#step", "99999")
	p.Until(`document.querySelector("#step-note").textContent.includes("not planned")`)
	p.Says("#step-note", "step 99999 is not planned request an earlier step")
}

var pictures = flag.Bool("pictures", false, "write the pictures of docs/img")

// picture stores a screenshot of the window for docs/img; it does nothing without a name.
func picture(t *testing.T, p *browsertest.Tab, name string) {
	t.Helper()
	if !*pictures || name == "" {
		return
	}
	p.Run(`document.documentElement.style.scrollbarWidth = "none"`)
	if err := os.WriteFile(filepath.Join("..", "..", "docs", "img", name+".png"), p.Screenshot(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ready waits until the page is drawn completely.
func ready(p *browsertest.Tab) {
	p.Until(
		`document.documentElement.dataset.updates > 0 && document.querySelectorAll("#charts .plot :is(svg, .empty)").length >= 4`)
}

// openCharts opens all groups of charts.
func openCharts(p *browsertest.Tab) {
	p.Run(`document.querySelectorAll("#charts > details").forEach((d) => (d.open = true))`)
	p.Until(`document.querySelectorAll("#charts .plot :is(svg, .empty)").length >= 10`)
}

// shown are the views whose screenshots docs/ contains.
var shown = map[browsertest.View]string{browsertest.Light(1440, 900): "live", browsertest.Dark(1440, 900): "live-dark",
	browsertest.Dark(420, 900):    "live-phone",
	browsertest.Light(2560, 1440): "live-wide"}

// The page fits the window and is accessible at all widths, in dark and light mode.
func TestPage_FitsWindowAndIsAccessible(t *testing.T) {
	rules := browsertest.Axe(t)
	browser := browsertest.Chromium(t)
	f := newFake()
	s := serve(t, f)
	for _, v := range testscale.Of([]browsertest.View{browsertest.Dark(420, 900), browsertest.Usual}, browsertest.Sizes) {
		name := fmt.Sprintf("%d-%s", v.Width, map[bool]string{true: "dark", false: "light"}[v.Dark])
		t.Run(name, func(t *testing.T) {
			p := browsertest.Open(t, browser, s.URL, v)
			ready(p)
			picture(t, p, shown[v])
			openCharts(p)
			p.Enter("#step", "12")
			p.Until(`document.querySelectorAll(".row").length === 16`)
			p.Click(".piece")
			p.Until(`document.querySelectorAll(".token").length >= 30`)
			if wide := browsertest.Eval[int](p, `document.documentElement.scrollWidth`); wide > int(v.Width) {
				culprits := browsertest.Eval[string](p,
					`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).slice(0, 5).map((e) => e.tagName + "." + e.className + "#" + e.id).join(" ")`)
				t.Errorf("the page is %d pixels wide in a window of %d: %s", wide, v.Width, culprits)
			}
			for _, b := range p.Barriers(rules) {
				t.Error(b)
			}
		})
	}
	t.Run("256 ranks", func(t *testing.T) {
		f.set(func(f *fake) { f.change = manyRanks })
		p := browsertest.Open(t, browser, s.URL, browsertest.Light(420, 900))
		ready(p)
		p.Says("#ranks-section", "Job train: 256 ranks", "Rank 77 holds the others (90 steps behind)", "Rank: 77 of 256")
		if n := browsertest.Eval[int](p, `document.querySelectorAll(".heat .cell").length`); n != 256 {
			t.Errorf("%d ranks in the heat map", n)
		}
		if wide := browsertest.Eval[int](p, `document.documentElement.scrollWidth`); wide > 420 {
			t.Errorf("the page is %d pixels wide in a window of 420", wide)
		}
		p.Click("#ranks-table summary")
		p.Until(`document.querySelectorAll("#ranks-table tbody tr").length === 256`)
		if testscale.All() { // axe takes half a minute for a table of this size
			for _, b := range p.Barriers(rules) {
				t.Error(b)
			}
		}
	})
}

func manyRanks(s *api.Status) {
	s.Ranks = nil
	for i := range 256 {
		r := api.RankStatus{Job: "train", Rank: i, World: 256, State: api.StateReading, Unit: api.UnitSent,
			Consumed: 8000 - uint64(i%3), Lag: uint64(i % 3), WaitP99: 0.3, Bytes: 1e6, Since: s.Time, Address: "10.0.0.1:99",
			Daemon: "gpu-01.4711"}
		if i == 77 {
			r.Consumed, r.Lag = 7910, 90
		}
		s.Ranks = append(s.Ranks, r)
	}
	s.RankCount = 256
	s.Jobs = []api.JobStatus{{Job: "train", World: 256, Present: 256, MinConsumed: 7910, MaxConsumed: 8000, Sent: 7910,
		State: api.StateReading}}
}

// A missing rank stays in the table and is marked, and the job's entry shows the cause. A pending resize is shown.
func TestPage_MissingRank(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) {
		f.change = func(s *api.Status) {
			s.Ranks[1].State, s.Ranks[1].StateSeconds, s.Ranks[1].Consumed = "absent", 20, 34
			s.Jobs = []api.JobStatus{{Job: "train", World: 4, Present: 3, Missing: []int{1}, State: "absent", Failing: true,
				Sentence: `Rank 1 of 4 of job "train" has not consumed step 34 for 20 s: it is not connected`}}
			s.Resizes = []api.ResizeStatus{{Sentence: `Rank 2 of 3 of job "train" has not called resize`}}
		}
	})
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, f).URL, browsertest.Usual)
	ready(p)
	p.Says("#ranks-section", `Rank 1 of 4 of job "train" has not consumed step 34 for 20 s: it is not connected`,
		"absent, 20 s", "1 ✕", `Rank 2 of 3 of job "train" has not called resize`)
	p.Says("#top", "3 of 4 ranks reading")
	p.Until(
		`document.querySelectorAll(".heat .cell[data-level=missing]").length === 1 && document.querySelector(".held[data-failing]") && document.querySelector("#ranks-table tr.missing th, #ranks-table tr.missing td")`)
}

// A link logs the page in once. The page removes the code from its address, and stores the token in the tab.
func TestPage_LoginLinkWorksOnce(t *testing.T) {
	f := newFake()
	f.open, f.codes = false, []string{"17.once"}
	s := serve(t, f)
	browser := browsertest.Chromium(t)
	p := browsertest.Open(t, browser, s.URL+"/#login=17.once", browsertest.Usual)
	ready(p)
	kept := browsertest.Eval[string](p,
		`JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.hash])`)
	if kept != `[{"loaderd-token":"operate"},{},"",""]` {
		t.Errorf("the tab keeps %s", kept)
	}
	p.Do(chromedp.Reload())
	ready(p)
	again := browsertest.Open(t, browser, s.URL+"/#login=17.once", browsertest.Usual, "401")
	again.Until(`Boolean(document.querySelector("#token-input"))`)
	again.Says("#token", "loaderd page")
	f.set(func(f *fake) { f.codes = []string{"18.another"} })
	again.Do(chromedp.Navigate(s.URL + "/#login=18.another")) // in the same tab
	ready(again)
}

// A caller without permission sees no actions. An unauthenticated one is asked for a token, which is stored in the
// tab.
func TestPage_ShowsActionsByRole(t *testing.T) {
	f := newFake()
	f.open = false
	s := serve(t, f)
	browser := browsertest.Chromium(t)
	give := func(p *browsertest.Tab, token string) {
		p.Until(`Boolean(document.querySelector("#token-input"))`)
		p.Enter("#token-input", token)
	}
	t.Run("read", func(t *testing.T) {
		p := browsertest.Open(t, browser, s.URL, browsertest.Usual, "401")
		p.Until(`document.activeElement?.id === "token-input"`)
		p.Says("#token", "Authentication required")
		give(p, "guess")
		p.Until(`document.querySelector("#token .problem")?.textContent.includes("bearer token")`)
		give(p, "read")
		ready(p)
		p.Says("#inspector", "needs the role operate")
		if shown := browsertest.Eval[bool](p,
			`!document.querySelector("#actions-section").hidden || document.querySelector("#actions button") !== null`); shown {
			t.Error("who may read sees actions")
		}
		if kept := browsertest.Eval[string](p,
			`JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])`); kept != `[{"loaderd-token":"read"},{},""]` {
			t.Errorf("the tab keeps %s", kept)
		}
		p.Do(chromedp.Reload())
		ready(p)
		p.Click("#forget")
		p.Until(`Boolean(document.querySelector("#token-input"))`)
	})
	t.Run("operate", func(t *testing.T) {
		p := browsertest.Open(t, browser, s.URL, browsertest.Usual, "401")
		give(p, "operate")
		ready(p)
		p.Click("#action-flush")
		p.Says("dialog", "Flush: run demo", "cannot be undone", "Cancel")
		p.Press(kb.Escape)
		p.Until(`!document.querySelector("dialog") && document.activeElement.id === "action-flush"`)
		if n, _ := f.took("flush"); n != 0 {
			t.Error("flushed without a confirmation")
		}
		p.Click("#action-flush")
		p.Click("dialog button.do")
		p.Until(`document.querySelector("#acted").textContent.includes("recorded after document 99,120")`)
		if n, _ := f.took("flush"); n != 1 {
			t.Errorf("flushed %d times", n)
		}
		p.Click("#action-seal")
		p.Do(chromedp.SetValue(chromedp.CSS("#seal-source"), "web"))
		p.Click("dialog button.do")
		p.Until(`document.querySelector("#acted").textContent.startsWith("Seal")`)
		if _, body := f.took("seal"); body != `{"source":"web"}` {
			t.Errorf("sealed with %s", body)
		}
		p.Click("#action-mix")
		p.Run(
			`document.querySelector("#weight-0").value = 1; document.querySelector("#weight-1").value = 3; document.querySelector("#weight-1").dispatchEvent(new Event("input"))`)
		p.Says("dialog", "75.0 %")
		p.Click("dialog button.do")
		p.Until(`document.querySelector("#acted").textContent.includes("takes effect at step 7,300")`)
		var mixed struct{ Weights map[string]float64 }
		if _, body := f.took("mix"); json.Unmarshal([]byte(body), &mixed) != nil || mixed.Weights["web"] != 1 ||
			mixed.Weights["math"] != 3 {
			t.Errorf("mixed with %v", mixed)
		}
		f.set(func(f *fake) {
			f.fail = &fault.Error{Reason: fault.NotLeading, Message: "no daemon plans the run", Advice: "wait"}
		})
		p.Expect("503")
		p.Click("#action-checkpoint")
		p.Click("dialog button.do")
		p.Until(`document.querySelector("dialog .problem").textContent.includes("no daemon plans the run wait")`)
	})
}

// All controls can be reached and used with the keyboard alone, and the focus is visible.
func TestPage_KeyboardNavigation(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	p := browsertest.Open(t, browsertest.Chromium(t), s.URL, browsertest.Usual)
	ready(p)
	p.Press(kb.Tab)
	if first := browsertest.Eval[string](p, `document.activeElement.className`); first != "skip" {
		t.Errorf("the first thing that the keyboard reaches is %s, not the way past the verdict", first)
	}
	p.Enter("#step", "12")
	p.Until(`document.querySelectorAll(".row").length === 16`)
	p.Run(`document.querySelector(".skip").focus()`)
	met := map[string]bool{}
	for range 150 {
		p.Press(kb.Tab)
		at := browsertest.Eval[[]string](p, `(() => { const e = document.activeElement; const shown = e.matches("input[type=radio]") ? e.nextElementSibling : e; const c = getComputedStyle(shown);
			return [e.id || e.className || e.innerText || e.getAttribute("aria-label") || e.tagName, e.tagName, c.outlineStyle + c.outlineWidth]; })()`)
		if at[1] == "BODY" {
			break
		}
		if at[2] != "solid3px" {
			t.Errorf("nothing shows that %s has the focus: %s", at[0], at[2])
		}
		met[at[0]] = true
	}
	for _, want := range []string{"cell", "sources", "step", "document", "events-more", "daemons", "action-flush",
		"action-seal", "action-mix", "action-checkpoint"} {
		if !met[want] {
			t.Errorf("the keyboard does not reach %s; it met %v", want, met)
		}
	}
	pieces := 0
	for name := range met {
		if strings.HasPrefix(name, "piece") {
			pieces++
		}
	}
	if pieces != 1 {
		t.Errorf("%d pieces are in the order of tabs, want 1: arrows move on from it", pieces)
	}
	p.Do(chromedp.Focus(chromedp.CSS("input[value=whole]")))
	p.Press(kb.ArrowRight)
	if !browsertest.Eval[bool](p, `document.querySelector("input[value=late]").checked`) {
		t.Error("the arrows do not move the switch")
	}
	p.Do(chromedp.Focus(chromedp.CSS("#action-flush")))
	p.Press(kb.Enter)
	p.Until(`document.activeElement.textContent === "Cancel"`)
	p.Press(kb.Tab, kb.Enter)
	p.Until(`document.querySelector("#acted").textContent.includes("recorded")`)
}

// A page that has lost its daemon shows that with the time of its values, and reconnects automatically.
func TestPage_Reconnects(t *testing.T) {
	browser := browsertest.Chromium(t)
	f := newFake()
	start := func(address string) (string, func()) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		handler := webui.New(webui.Config{Actions: f, RequiresAuth: func() bool {
			return false
		}, Log: slog.New(slog.DiscardHandler)})
		server := &http.Server{Handler: handler}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l)
		}()
		return l.Addr().String(), func() {
			handler.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			<-served
		}
	}
	address, stop := start("127.0.0.1:0")
	p := browsertest.Open(t, browser, "http://"+address, browsertest.Usual, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE",
		"ERR_CONNECTION_RESET")
	ready(p)
	stop()
	p.Until(
		`!document.querySelector("#away").hidden && document.querySelector("#away").textContent.includes("The values are from")`)
	before := browsertest.Eval[string](p, `document.querySelector("#away").textContent`)
	if !strings.Contains(before, "reconnects automatically") {
		t.Error(before)
	}
	updates := browsertest.Eval[int](p, `Number(document.documentElement.dataset.updates)`)
	_, stop = start(address)
	defer stop()
	p.Until(fmt.Sprintf(`document.querySelector("#away").hidden && document.documentElement.dataset.updates > %d`,
		updates+1))
}
