package webui_test

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"loaderd/internal/api"
	"loaderd/internal/browsertest"
)

// A window of 1,440 x 900 shows the verdict, the flow, the ranks and the sources without scrolling.
func TestPage_FirstScreen(t *testing.T) {
	browser := browsertest.Chromium(t)
	for name, change := range map[string]func(*api.Status){"four ranks": nil, "several jobs": severalJobs} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.set(func(f *fake) { f.change = change })
			p := browsertest.Open(t, browser, serve(t, f).URL, browsertest.Light(1440, 900))
			ready(p)
			bottoms := browsertest.Eval[map[string]float64](p, `Object.fromEntries(["top", "flow-section", "ranks-section",
				"sources-section"].map((id) => [id, document.getElementById(id).getBoundingClientRect().bottom]))`)
			for id, bottom := range bottoms {
				if bottom > 900 {
					t.Errorf("%s ends at %.0f pixels", id, bottom)
				}
			}
			if lines := browsertest.Eval[float64](p, `(() => { const h = document.querySelector("h1");
				return h.clientHeight / parseFloat(getComputedStyle(h).lineHeight); })()`); lines > 1.2 {
				t.Errorf("the headline has %.1f lines", lines)
			}
		})
	}
}

// The page is short, and no card is mostly empty.
func TestPage_HeightAndEmptyCards(t *testing.T) {
	browser := browsertest.Chromium(t)
	s := serve(t, newFake())
	for width, most := range map[int64]int{420: 5800, 1280: 2700, 1440: 2500} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			p := browsertest.Open(t, browser, s.URL, browsertest.Light(width, 900))
			ready(p)
			height := browsertest.Eval[int](p, `document.documentElement.scrollHeight`)
			t.Logf("%d pixels high", height)
			if height > most {
				t.Errorf("the page is %d pixels high, want at most %d", height, most)
			}
			for _, card := range browsertest.Eval[[]string](p, `[...document.querySelectorAll("main section")]
				.filter((c) => c.clientHeight).map((c) => {
				const parts = [...c.querySelectorAll("*")].filter((e) => !e.childElementCount && e.getClientRects().length);
				const end = Math.max(...parts.map((e) => e.getBoundingClientRect().bottom));
				return [c.id, c.getBoundingClientRect().bottom - end];
			}).filter(([, empty]) => empty > 80).map(([id, empty]) => id + ": " + Math.round(empty) + " empty pixels")`) {
				t.Error(card)
			}
		})
	}
}

// One value far above all others is clipped and marked. The other values keep the height of the chart.
func TestChart_SpikeDoesNotFlatten(t *testing.T) {
	f := newFake()
	f.past.Times.Published[100] = 400_000 // the others are about 1,500
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, f).URL, browsertest.Usual)
	ready(p)
	share := browsertest.Eval[float64](p, `(() => {
		const plot = document.querySelector("#chart-documents svg").getBoundingClientRect();
		const d = document.querySelector("#chart-documents .line").getAttribute("d");
		const y = [...d.matchAll(/,([\d.]+)/g)].map((m) => Number(m[1]));
		return 1 - y.sort((a, b) => a - b)[y.length / 2] / plot.height; })()`)
	if share < 0.5 {
		t.Errorf("the median is drawn at %.0f %% of the chart's height", 100*share)
	}
	if n := browsertest.Eval[int](p, `document.querySelectorAll("#chart-documents .clipped").length`); n != 1 {
		t.Errorf("%d clipped values are marked, want 1", n)
	}
	p.Says("#chart-documents", "1 value above the axis, up to 400k")
}

// Steps of one bucket each fill the chart of buckets with the colors of all buckets. A run of one step is drawn too.
func TestChart_DrawsEveryBucket(t *testing.T) {
	browser := browsertest.Chromium(t)
	for _, steps := range []int{1, 400} {
		t.Run(fmt.Sprintf("%d steps", steps), func(t *testing.T) {
			f := newFake()
			f.past.Steps = madeUpSteps(0, steps, 1)
			f.past.Marks = nil
			for i := range steps {
				for b := range 3 {
					f.past.Steps.Buckets[b][i] = 0
				}
				f.past.Steps.Buckets[(i+i/5)%3][i] = 1
			}
			p := browsertest.Open(t, browser, serve(t, f).URL, browsertest.Usual)
			ready(p)
			openCharts(p)
			p.Run(`document.querySelector("#chart-buckets").scrollIntoView()`)
			plot := browsertest.Eval[[]float64](p, `(() => {
				const r = document.querySelector("#chart-buckets svg").getBoundingClientRect();
				return [r.left + 56, r.top + 14, r.right - 16, r.bottom - 28]; })()`)
			screen, err := png.Decode(bytes.NewReader(p.Screenshot()))
			if err != nil {
				t.Fatal(err)
			}
			colors, all := map[string]int{}, 0
			for x := int(plot[0]); x < int(plot[2]); x++ {
				for y := int(plot[1]); y < int(plot[3]); y++ {
					r, g, b, _ := screen.At(x, y).RGBA()
					colors[fmt.Sprintf("%02x%02x%02x", r>>8, g>>8, b>>8)]++
					all++
				}
			}
			if gaps := colors["ffffff"]; gaps > all/100 {
				t.Errorf("%d of %d pixels are empty", gaps, all)
			}
			for i, color := range []string{"0067a9", "d05f00", "0a8466"}[:min(steps, 3)] {
				if colors[color] < all/10 {
					t.Errorf("bucket %d has %d of %d pixels: %v", i, colors[color], all, colors)
				}
			}
		})
	}
}

// Charts of the same axis show the same point.
func TestChart_SharesPointer(t *testing.T) {
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, newFake()).URL, browsertest.Usual)
	ready(p)
	p.Run(`(() => { const plot = document.querySelector("#chart-speed .plot");
		const r = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent("pointermove", {clientX: r.left + r.width / 2})); })()`)
	shown := browsertest.Eval[[]string](p,
		`["speed", "waiting"].map((id) => document.querySelector("#chart-" + id + " .readout").textContent)`)
	if shown[0] == "" || shown[0] != shown[1] {
		t.Errorf("the charts show %q", shown)
	}
}

// severalJobs changes a status to that of three jobs with 136 ranks.
func severalJobs(s *api.Status) {
	s.Ranks, s.Jobs = nil, nil
	for j, job := range []string{"train", "eval", "ablation"} {
		world := []int{64, 8, 64}[j]
		for i := range world {
			r := api.RankStatus{Job: job, Rank: i, World: world, State: api.StateReading, Unit: api.UnitRead,
				Consumed: 8000 - uint64(i%3), Lag: uint64(i % 3), WaitP50: 0.01, WaitP99: 0.3 + math.Mod(float64(i)*0.37, 2),
				Bytes: 1e6, Since: s.Time, Address: fmt.Sprintf("10.0.%d.%d:99", j, i/8), Daemon: "gpu-01.4711"}
			switch {
			case j == 0 && i == 27:
				r.Consumed, r.Lag = 7910, 90
			case j == 0 && i/8 == 3:
				r.Consumed, r.Lag = 7988, 12
			case j == 2 && i == 5:
				r.State, r.StateSeconds = "absent", 40
			}
			s.Ranks = append(s.Ranks, r)
		}
		s.Jobs = append(s.Jobs, api.JobStatus{Job: job, World: world, Present: world, State: api.StateReading})
	}
	s.RankCount = len(s.Ranks)
	s.Jobs[2].Present, s.Jobs[2].Missing, s.Jobs[2].State, s.Jobs[2].Failing = 63, []int{5}, "absent", true
	s.Jobs[2].Sentence = `Rank 5 of 64 of job "ablation" has not consumed step 7,990 for 40 s: it is not connected`
}

// Each rank of several jobs is a cell with a color, a text alternative and values on focus.
func TestPage_HeatMap(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) { f.change = severalJobs })
	browser := browsertest.Chromium(t)
	p := browsertest.Open(t, browser, serve(t, f).URL, browsertest.Light(1440, 900))
	ready(p)
	if n := browsertest.Eval[[]int](p,
		`[...document.querySelectorAll(".heat")].map((h) => h.childElementCount)`); fmt.Sprint(n) != "[64 8 64]" {
		t.Errorf("cells by job: %v", n)
	}
	const train = `.job:first-child .cell`
	levels := func() []string {
		return browsertest.Eval[[]string](p,
			`[0, 24, 27].map((i) => document.querySelectorAll("`+train+`")[i].dataset.level)`)
	}
	if got := fmt.Sprint(levels()); got != "[0 2 3]" {
		t.Errorf("levels of lags 0, 12 and 90: %s", got)
	}
	if label := browsertest.Eval[string](p,
		`document.querySelector("#jobs .cell[data-level=missing]").getAttribute("aria-label")`); label !=
		"Rank 5 of 64: absent, 40 s, 7,998 steps consumed, 2 steps behind, wait p99 2.15 s" {
		t.Errorf("text alternative: %s", label)
	}
	p.Says("#rank", "Rank: 5 of 64", "Job: ablation", "State: absent, 40 s") // the worst
	p.Run(`document.querySelector("` + train + `").focus()`)
	p.Says("#rank", "Rank: 0 of 64", "Client: 10.0.0.0:99")
	p.Press(kb.ArrowRight, kb.ArrowDown)
	p.Says("#rank", "Rank: 33 of 64", "Client: 10.0.0.4:99")
	if n := browsertest.Eval[int](p, `document.querySelectorAll(".job:first-child .cell[tabindex='0']").length`); n != 1 {
		t.Errorf("%d cells are in the tab order", n)
	}
	p.Click("input[value=wait] + span")
	if got := fmt.Sprint(levels()); got != "[1 2 2]" {
		t.Errorf("levels of waits 0.3, 1.2 and 2.3 s: %s", got)
	}
}

// Events can be filtered by kind. Advice that several events share is shown at the newest.
func TestPage_EventsFilter(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) {
		f.change = func(s *api.Status) {
			for i := range s.Events {
				if s.Events[i].Kind == "reader" {
					s.Events[i].Do = "check that rank's log"
				}
			}
		}
	})
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, f).URL, browsertest.Usual)
	ready(p)
	p.Says("#events-kinds", "all 17", "reader 13", "error 1")
	kinds := func() []string {
		return browsertest.Eval[[]string](p,
			`[...new Set([...document.querySelectorAll("#events .kind")].map((k) => k.textContent))]`)
	}
	if got := kinds(); len(got) != 5 {
		t.Errorf("kinds without a filter: %v", got)
	}
	p.Click("#events-kinds input[value=reader] + span")
	if got := fmt.Sprint(kinds()); got != "[reader]" {
		t.Errorf("kinds of a filter by reader: %v", got)
	}
	if n := browsertest.Eval[int](p,
		`document.querySelector("#events").innerText.split("check that rank's log").length - 1`); n != 1 {
		t.Errorf("advice of 13 events is shown %d times", n)
	}
	p.Click("#events-kinds input[value=''] + span")
	if got := kinds(); len(got) != 5 {
		t.Errorf("kinds after the filter: %v", got)
	}
}
