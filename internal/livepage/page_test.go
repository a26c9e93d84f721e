package livepage_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"loaderd/arrowout/answers"
	"loaderd/internal/livepage"
	"loaderd/internal/testscale"
	"loaderd/loader"
)

// Every section says what the document says.
func TestPageShowsEverySection(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) { f.change = func(s *answers.Status) { s.Planned = 7271 } })
	s := serve(t, f)
	p := open(t, chromium(t), s.URL, usual, "404") // of a step that is not planned, which is asked for below
	p.ready()

	p.says("#top", "Waiting", "Rank 3 of 4 holds the others up: 40 steps behind", "What to do: look at rank 3 of job train", "demo", "7,271 steps planned", "steps sent", "steps consumed", "7,100 steps committed",
		"≈ 21,400 steps in all", "90 min until the end", "4 ranks read", "20 MiB/s sent to ranks", "0.31 % padding", "12.7 % documents split")
	p.says("#flow", "Stored 900 MiB of 1 GiB in stream DOCS_web full in about 40 min", "Published 812k of 990k documents taken by the run", "Tokenized 61 MiB of 64 MiB", "Pool 4,000 of 4,096 pieces", "Shuffle window 1,020 of 1,024 atoms", "Bucket queues 88 of 320 rows",
		"Planned ahead 64 of 64 steps beyond", "9.6 steps/s", "Committed 7,100 of")
	if limiting := eval[string](p, `[...document.querySelectorAll(".stage[data-limits]")].map((x) => x.innerText).join("|")`); !strings.Contains(limiting, "Read") || !strings.Contains(limiting, "Holds the others up") || strings.Contains(limiting, "|") {
		t.Errorf("what limits: %q", limiting)
	}
	p.says("#sources", "web 71.2 % 70.0 % 70.2 % 5.2G 1 of 1 160,000 open, 12 documents undecodable", "math 28.8 % 30.0 % 29.8 % 2.2G 2 of 4 17,600 dry for 3 min")
	p.says("#jobs", "Job train: 4 ranks, the first has consumed", "Rank 3 holds the others up: 40 steps behind", "3 of 4", "40 steps", "10.0.0.13:5015", "gpu-02.812", "31 min")
	if first := p.text(".job tbody tr:first-child th"); first != "3 of 4" {
		t.Errorf("the first rank of the table is %s, not who is furthest behind", first)
	}
	p.says("#keepers", "trainer before step 7,100 171 steps", "trainer/eval before step 7,180")
	p.says("#skipped-section", "undecodable 15 undecodable see the dead letters", "masked 1,200 without a token that has a loss", "<script>alert(1)</script>")
	p.says("#dead-section", "15 documents could not be decoded", "1 more wait to be stored", "12 not UTF-8", "3 token out of range", "Document web/599870", "byte 0xff", "<script>alert(1)</script>")
	p.says("#events", "source math has had nothing new for 10 s What to do: look at the producer of math", "gpu-01.4711 leads, term 3")
	p.says("#daemons", "gpu-01.4711 (this page) leads, term 3 2", "gpu-02.812 follows", "gpu-03.90 follows 0", "12 s ago", "0.19.2", "grpc://gpu-02:8815")
	p.says("#actions", "Drain", "Seal", "Change the weights", "Store a checkpoint", "cannot be undone")
	if links := eval[string](p, `[...document.querySelectorAll("#daemons a")].map((a) => a.href).join(" ")`); links != "http://gpu-02:9815/" {
		t.Errorf("links to daemons: %s", links)
	}
	p.says("#charts", "Shares of sources", "web, target", "Buckets", "1,024", "Padding and parts", "Lengths by step", "Lengths of the whole run", "Speed", "Waiting", "Split and related", "Steps that wait")
	if label := eval[string](p, `document.querySelector("#chart-age svg").getAttribute("aria-label")`); !strings.Contains(label, "oldest that waits") || strings.Contains(label, "oldest in the step") {
		t.Errorf("a run with several sources shows ages so: %s", label)
	}

	t.Run("more events", func(t *testing.T) {
		p.click("#events-more")
		if n := eval[int](p, `document.querySelectorAll("#events > li").length`); n != 17 {
			t.Errorf("%d events", n)
		}
	})
	t.Run("the last minutes", func(t *testing.T) {
		before := eval[string](p, `document.querySelector("#chart-shares svg").getAttribute("aria-label")`)
		p.click("input[value=late] + span")
		after := eval[string](p, `document.querySelector("#chart-shares svg").getAttribute("aria-label")`)
		if !strings.Contains(before, "from step 0 to 7,170") || !strings.Contains(after, "from step 7,080 to 7,199") {
			t.Errorf("%s, then %s", before, after)
		}
	})
	t.Run("the table behind a chart", func(t *testing.T) {
		p.click("#chart-padding summary")
		p.until(`document.querySelectorAll("#chart-padding tbody tr").length > 10`)
		p.says("#chart-padding table", "7,199")
	})
	t.Run("a step", func(t *testing.T) { looksIntoAStep(t, p) })
	t.Run("a history of nothing", func(t *testing.T) {
		before := eval[string](p, `document.querySelector("#chart-buckets .empty")?.textContent ?? ""`)
		f.set(func(f *fake) {
			f.past = answers.History{Run: "demo", Buckets: []int{1024}, Steps: answers.StepSeries{Buckets: [][]uint64{nil}, Sources: [][]int64{nil}}, Lately: answers.StepSeries{Buckets: [][]uint64{nil}}}
		})
		p.until(`document.querySelector("#chart-buckets .empty")?.textContent === "Nothing yet"`)
		if note := eval[bool](p, `document.querySelector("#history-note").hidden`); before != "" || !note {
			t.Errorf("before it was %q; the note says %s", before, p.text("#history-note"))
		}
		f.set(func(f *fake) { f.past = madeUpHistory() })
	})
	t.Run("another verdict", func(t *testing.T) {
		f.set(func(f *fake) {
			f.change = func(s *answers.Status) {
				s.Verdict = loader.Verdict{Health: loader.Failing, Sentence: "The NATS server is out of reach for 12 s", Do: "check it"}
				s.Sources, s.Ranks, s.Keepers, s.Flow = nil, nil, nil, nil
				s.Dead = answers.DeadStatus{}
			}
		})
		p.until(`document.querySelector("#health").textContent === "Failing"`)
		p.says("#announce", "Failing: The NATS server is out of reach")
		p.says("#ranks-section", "No rank reads at this moment", "No trainer has committed")
		p.says("#dead-section", "There are none")
		if shown := eval[bool](p, `!document.querySelector("#sources-section").hidden || Boolean(document.querySelector("#action-mix"))`); shown {
			t.Error("a run with one stream has a section of sources, or an action to mix them")
		}
	})
}

// looksIntoAStep uses the step inspector as somebody does who wants to know what was in a step.
func looksIntoAStep(t *testing.T, p *tab) {
	defer func(outer *testing.T) { p.t = outer }(p.t)
	p.t = t
	p.enter("#step", "12")
	p.until(`document.querySelectorAll(".row").length === 16`)
	p.says("#step-note", "Step 12: 16 rows of 1024 tokens")
	p.says("#inspector .command", "loaderd ledger --step 12 --documents --flight grpc://gpu-01:8815")
	widths := eval[[]float64](p, `(() => { const row = document.querySelectorAll(".row")[2]; const cells = [...row.querySelectorAll("[role=gridcell]")];
		const all = cells.reduce((n, c) => n + c.getBoundingClientRect().width, 0);
		return cells.map((c) => c.getBoundingClientRect().width / all - c.style.flexGrow / 1024); })()`)
	for i, off := range widths {
		if off > 0.01 || off < -0.01 {
			t.Errorf("piece %d of row 2 is %f of the row too wide", i, off)
		}
	}
	p.run(`document.querySelectorAll(".row")[15].querySelector(".piece").focus()`)
	p.says(".about-piece", "Row 15:", "#7, from token 3", "Id inner", "In its message document 7, from 0", "With a loss", "Weight 0.5", `Meta {"lang":"de"}`)
	p.run(`document.querySelector(".piece").focus()`)
	p.says(".about-piece", "Row 0:", "Source", "Id crawl-5", "Path web/part-", "published 3 h ago")
	p.press(kb.ArrowRight, kb.ArrowDown, kb.Enter)
	p.until(`document.querySelectorAll(".token").length >= 30`)
	p.says(".about-piece", "Row 1:", "loader packs", "<b>not bold</b>", "the document has 4,000")
	p.enter("#document", "crawl-7")
	p.until(`document.querySelectorAll("#found li").length === 2`)
	p.says("#found", "Step 12, row 3", "512 tokens of web/7#3 from 12", "Step 19, row 9")
	p.click("#found li:nth-child(2) button")
	p.until(`document.querySelector("#step").value === "19" && document.activeElement?.parentElement?.classList.contains("marked")`)
	p.enter("#step", "99999")
	p.until(`document.querySelector("#step-note").textContent.includes("not planned")`)
	p.says("#step-note", "step 99999 is not planned ask for an earlier step")
}

// shown are the views whose pictures docs/ has.
var shown = map[view]string{{1280, 900, false}: "live", {1280, 900, true}: "live-dark", {420, 900, true}: "live-phone", {2560, 1440, false}: "live-wide"}

var sizes = []view{{420, 900, false}, {420, 900, true}, {768, 1000, false}, {768, 1000, true}, {1280, 900, false}, {1280, 900, true}, {2560, 1440, false}, {2560, 1440, true}}

// The page fits, and keeps nobody out, at all widths, in dark and light.
func TestPageFits(t *testing.T) {
	rules := axe(t)
	browser := chromium(t)
	f := newFake()
	s := serve(t, f)
	for _, v := range testscale.Of([]view{sizes[1], sizes[4]}, sizes) {
		name := fmt.Sprintf("%d-%s", v.width, map[bool]string{true: "dark", false: "light"}[v.dark])
		t.Run(name, func(t *testing.T) {
			p := open(t, browser, s.URL, v)
			p.ready()
			p.enter("#step", "12")
			p.until(`document.querySelectorAll(".row").length === 16`)
			p.click(".piece")
			p.until(`document.querySelectorAll(".token").length >= 30`)
			p.run(`scrollTo(0, 0)`)
			if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(v.width) {
				culprits := eval[string](p, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).slice(0, 5).map((e) => e.tagName + "." + e.className + "#" + e.id).join(" ")`)
				t.Errorf("the page is %d pixels wide in a window of %d: %s", wide, v.width, culprits)
			}
			for _, b := range p.barriers(rules) {
				t.Error(b)
			}
			p.picture(shown[v])
		})
	}
	t.Run("256 ranks", func(t *testing.T) {
		f.set(func(f *fake) { f.change = manyRanks })
		p := open(t, browser, s.URL, sizes[0])
		p.ready()
		p.says("#jobs", "Job train: 256 ranks", "Rank 77 holds the others up: 90 steps behind", "Show all 256 ranks")
		if n := eval[int](p, `document.querySelectorAll(".cell").length`); n != 256 {
			t.Errorf("%d ranks in the strip", n)
		}
		if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > 420 {
			t.Errorf("the page is %d pixels wide in a window of 420", wide)
		}
		p.click(".job > button")
		if n := eval[int](p, `document.querySelectorAll(".job tbody tr").length`); n != 256 {
			t.Errorf("%d ranks in the table", n)
		}
		if testscale.All() { // axe takes half a minute for a table of this size
			for _, b := range p.barriers(rules) {
				t.Error(b)
			}
		}
	})
}

func manyRanks(s *answers.Status) {
	s.Ranks = nil
	for i := range 256 {
		r := answers.RankStatus{Job: "train", Rank: i, World: 256, State: answers.StateReading, Unit: answers.UnitSent, Consumed: 8000 - uint64(i%3), Lag: uint64(i % 3), WaitP99: 0.3, Bytes: 1e6, Since: s.Time, Address: "10.0.0.1:99", Daemon: "gpu-01.4711"}
		if i == 77 {
			r.Consumed, r.Lag = 7910, 90
		}
		s.Ranks = append(s.Ranks, r)
	}
	s.Readers = 256
	s.Jobs = []answers.JobStatus{{Job: "train", World: 256, Present: 256, Least: 7910, Most: 8000, Sent: 7910, State: answers.StateReading}}
}

// A rank that is missing stays in the table, is marked, and the job says what is known.
func TestPage_MissingRank(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) {
		f.change = func(s *answers.Status) {
			s.Ranks[1].State, s.Ranks[1].StateFor, s.Ranks[1].Consumed = "absent", 20, 34
			s.Jobs = []answers.JobStatus{{Job: "train", World: 4, Present: 3, Missing: []int{1}, State: "absent", Failing: true,
				Sentence: `Rank 1 of 4 of job "train" has not consumed step 34 for 20 s: it is not connected`}}
		}
	})
	p := open(t, chromium(t), serve(t, f).URL, usual)
	p.ready()
	p.says("#jobs", `Rank 1 of 4 of job "train" has not consumed step 34 for 20 s: it is not connected`, "absent, 20 s", "1 ✕")
	p.says("#top", "3 of 4 ranks read")
	p.until(`document.querySelectorAll(".cell[data-missing]").length === 1 && document.querySelector(".held[data-failing]") && document.querySelector("#jobs tr.missing th, #jobs tr.missing td")`)
}

// A link logs the page in once. Its code leaves the address, and the token stays in the tab.
func TestPage_OpensByLinkOnce(t *testing.T) {
	f := newFake()
	f.open, f.codes = false, []string{"17.once"}
	s := serve(t, f)
	browser := chromium(t)
	p := open(t, browser, s.URL+"/#login=17.once", usual)
	p.ready()
	kept := eval[string](p, `JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.hash])`)
	if kept != `[{"loaderd-token":"operate"},{},"",""]` {
		t.Errorf("the tab keeps %s", kept)
	}
	p.do(chromedp.Reload())
	p.ready()
	again := open(t, browser, s.URL+"/#login=17.once", usual, "401")
	again.until(`Boolean(document.querySelector("#token-input"))`)
	again.says("#token", "loaderd page")
	f.set(func(f *fake) { f.codes = []string{"18.another"} })
	again.do(chromedp.Navigate(s.URL + "/#login=18.another")) // in the same tab
	again.ready()
}

// Who may not act sees no actions; who is not known is asked for a token, which stays in the tab.
func TestPageByRole(t *testing.T) {
	f := newFake()
	f.open = false
	s := serve(t, f)
	browser := chromium(t)
	give := func(p *tab, token string) {
		p.until(`Boolean(document.querySelector("#token-input"))`)
		p.enter("#token-input", token)
	}
	t.Run("read", func(t *testing.T) {
		p := open(t, browser, s.URL, usual, "401")
		p.until(`document.activeElement?.id === "token-input"`)
		p.says("#token", "This daemon asks who you are")
		give(p, "guess")
		p.until(`document.querySelector("#token .problem")?.textContent.includes("bearer token")`)
		give(p, "read")
		p.ready()
		p.says("#inspector", "takes the role operate")
		if shown := eval[bool](p, `!document.querySelector("#actions-section").hidden || document.querySelector("#actions button") !== null`); shown {
			t.Error("who may read sees actions")
		}
		if kept := eval[string](p, `JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])`); kept != `[{"loaderd-token":"read"},{},""]` {
			t.Errorf("the tab keeps %s", kept)
		}
		p.do(chromedp.Reload())
		p.ready()
		p.click("#forget")
		p.until(`Boolean(document.querySelector("#token-input"))`)
	})
	t.Run("operate", func(t *testing.T) {
		p := open(t, browser, s.URL, usual, "401")
		give(p, "operate")
		p.ready()
		p.click("#action-drain")
		p.says("dialog", "Drain: run demo", "cannot be undone", "Cancel")
		p.press(kb.Escape)
		p.until(`!document.querySelector("dialog") && document.activeElement.id === "action-drain"`)
		if n, _ := f.took("drain"); n != 0 {
			t.Error("drained without a confirmation")
		}
		p.click("#action-drain")
		p.click("dialog button.do")
		p.until(`document.querySelector("#acted").textContent.includes("recorded behind document 99,120")`)
		if n, _ := f.took("drain"); n != 1 {
			t.Errorf("drained %d times", n)
		}
		p.click("#action-seal")
		p.do(chromedp.SetValue(chromedp.CSS("#seal-source"), "web"))
		p.click("dialog button.do")
		p.until(`document.querySelector("#acted").textContent.startsWith("Seal")`)
		if _, body := f.took("seal"); body != `{"source":"web"}` {
			t.Errorf("sealed with %s", body)
		}
		p.click("#action-mix")
		p.run(`document.querySelector("#weight-0").value = 1; document.querySelector("#weight-1").value = 3; document.querySelector("#weight-1").dispatchEvent(new Event("input"))`)
		p.says("dialog", "75.0 %")
		p.click("dialog button.do")
		p.until(`document.querySelector("#acted").textContent.includes("in force from step 7,300")`)
		var mixed struct{ Weights map[string]float64 }
		if _, body := f.took("mix"); json.Unmarshal([]byte(body), &mixed) != nil || mixed.Weights["web"] != 1 || mixed.Weights["math"] != 3 {
			t.Errorf("mixed with %v", mixed)
		}
		f.set(func(f *fake) {
			f.fail = &loader.Error{Reason: loader.NotLeading, Message: "no daemon plans the run", Do: "wait"}
		})
		p.expected = append(p.expected, "503")
		p.click("#action-checkpoint")
		p.click("dialog button.do")
		p.until(`document.querySelector("dialog .problem").textContent.includes("no daemon plans the run wait")`)
	})
}

// Everything can be reached and used by the keyboard alone, and one sees where one is.
func TestPageByKeyboard(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	p := open(t, chromium(t), s.URL, usual)
	p.ready()
	p.press(kb.Tab)
	if first := eval[string](p, `document.activeElement.className`); first != "skip" {
		t.Errorf("the first thing that the keyboard reaches is %s, not the way past the verdict", first)
	}
	p.enter("#step", "12")
	p.until(`document.querySelectorAll(".row").length === 16`)
	p.run(`document.querySelector(".skip").focus()`)
	met := map[string]bool{}
	for range 150 {
		p.press(kb.Tab)
		at := eval[[]string](p, `(() => { const e = document.activeElement; const shown = e.matches("input[type=radio]") ? e.nextElementSibling : e; const c = getComputedStyle(shown);
			return [e.id || e.className || e.innerText || e.getAttribute("aria-label") || e.tagName, e.tagName, c.outlineStyle + c.outlineWidth]; })()`)
		if at[1] == "BODY" {
			break
		}
		if at[2] != "solid3px" {
			t.Errorf("nothing shows that %s has the focus: %s", at[0], at[2])
		}
		met[at[0]] = true
	}
	for _, want := range []string{"sources", "step", "document", "events-more", "daemons", "action-drain", "action-seal", "action-mix", "action-checkpoint"} {
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
	p.do(chromedp.Focus(chromedp.CSS("input[value=whole]")))
	p.press(kb.ArrowRight)
	if !eval[bool](p, `document.querySelector("input[value=late]").checked`) {
		t.Error("the arrows do not move the switch")
	}
	p.do(chromedp.Focus(chromedp.CSS("#action-drain")))
	p.press(kb.Enter)
	p.until(`document.activeElement.textContent === "Cancel"`)
	p.press(kb.Tab, kb.Enter)
	p.until(`document.querySelector("#acted").textContent.includes("recorded")`)
}

// A page whose daemon is away says so, with the time of its figures, and goes on by itself.
func TestPageGoesOn(t *testing.T) {
	browser := chromium(t)
	f := newFake()
	start := func(address string) (string, func()) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		handler := livepage.New(livepage.Config{Asker: f, Asks: func() bool { return false }, Log: slog.New(slog.DiscardHandler)})
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
	p := open(t, browser, "http://"+address, usual, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_CONNECTION_RESET")
	p.ready()
	stop()
	p.until(`!document.querySelector("#away").hidden && document.querySelector("#away").textContent.includes("The figures are of")`)
	before := eval[string](p, `document.querySelector("#away").textContent`)
	if !strings.Contains(before, "goes on by itself") {
		t.Error(before)
	}
	updates := eval[int](p, `Number(document.documentElement.dataset.updates)`)
	_, stop = start(address)
	defer stop()
	p.until(fmt.Sprintf(`document.querySelector("#away").hidden && document.documentElement.dataset.updates > %d`, updates+1))
}
