package webui_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"loaderd/internal/api"
	"loaderd/internal/browsertest"
	"loaderd/loader/fault"
	"loaderd/loader/runconfig"
)

// withSchedule adds a schedule, filters and skipped steps to a status.
func withSchedule(s *api.Status) {
	phase := func(i int, rows int, from, first int64) api.SchedulePhase {
		p := api.SchedulePhase{Index: i, ScheduledPhase: runconfig.ScheduledPhase{StepRows: []int{rows}}}
		p.FromStep = from
		if first >= 0 {
			step := uint64(first)
			p.FirstStep = &step
		}
		return p
	}
	phases := []api.SchedulePhase{phase(0, 64, 0, 0), phase(1, 128, 5000, 5000), phase(2, 512, 9000, -1)}
	phases[2].RampSteps = 1000
	s.Schedule = &api.ScheduleStatus{Phase: 1, Rows: []int{128}, Steps: 7295, Tokens: 3e9, Phases: phases, PhaseCount: 5,
		NextChange: &runconfig.ScheduleChange{Phase: 2, Rows: []int{128}, Steps: 1705}}
	s.Filters = []api.FilterStatus{{Where: "tokens >= 64", Documents: 812},
		{Source: "math", Where: `meta.quality > 0.5 || id == "<script>alert(1)</script>"`, Documents: 800}}
	s.FilterCount = 3
	s.Commits[0].Skipped = 200
}

// The page shows phases with the current one marked, filters with the documents that they rejected, and skipped steps
// by job. Without them it has no such sections.
func TestPage_ScheduleAndFilters(t *testing.T) {
	f := newFake()
	f.set(func(f *fake) { f.change = withSchedule })
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, f).URL, browsertest.Usual)
	ready(p)
	p.Says("#schedule-section", "The next step has 128 rows (phase 1 of 4). Phase 2 begins in 1,705 steps, with 128 rows.",
		"0 the start none 64 0", "1 (current) 5,000 steps none 128 5,000", "2 9,000 steps 1,000 steps 512",
		"2 more phases: loaderd schedule shows all")
	if current := p.Text("#schedule tr.best"); !strings.HasPrefix(current, "1 (current)") {
		t.Errorf("the current phase is marked as %q", current)
	}
	bars := browsertest.Eval[[]string](p, `[...document.querySelectorAll("#schedule .share i")].map((x) => x.style.width)`)
	if strings.Join(bars, " ") != "12.5% 25% 100%" {
		t.Errorf("the bars have widths %v", bars)
	}
	p.Says("#filters-section", "all sources 812 tokens >= 64", `math 800 meta.quality > 0.5 || id == "<script>`,
		"1 more source with fewer filtered documents")
	p.Says("#commits", "Skipped", "train before step 7,100", "200 steps")
	for _, b := range p.Barriers(browsertest.Axe(t)) {
		t.Error(b)
	}
	f.set(func(f *fake) {
		f.change = func(s *api.Status) {
			withSchedule(s)
			s.Schedule.NextChange, s.Schedule.PhaseCount = &runconfig.ScheduleChange{Phase: 1, Rows: []int{144}, Tokens: 2e6}, 3
			s.Commits[0].Skipped = 0
		}
	})
	p.Until(`document.querySelector("#schedule-next").textContent.endsWith("It is in a ramp: 144 rows in 2M tokens.")`)
	if text := p.Text("#schedule"); strings.Contains(text, "Tokens per row") {
		t.Errorf("phases without row lengths: %s", text)
	}
	p.Until(`document.querySelector("#schedule-rest").hidden && !document.querySelector("#commits").textContent.includes("Skipped")`)
	f.set(func(f *fake) {
		f.change = func(s *api.Status) {
			withSchedule(s)
			s.Schedule.Buckets, s.Schedule.NextChange.Buckets = []int{1024, 4096}, []int{32768}
			for i := range s.Schedule.Phases {
				s.Schedule.Phases[i].Buckets = []int{1024, 4096}
			}
			s.Schedule.Phases[2].Buckets = []int{32768}
		}
	})
	p.Until(`document.querySelector("#schedule").textContent.includes("Tokens per row")`)
	p.Says("#schedule-section", "The next step has 128 rows of 1,024 to 4,096 tokens (phase 1 of 4).",
		"in 1,705 steps, with 128 rows of 32,768 tokens.", "1 (current) 5,000 steps none 128 5,000 1,024 to 4,096",
		"2 9,000 steps 1,000 steps 512 32,768")
	f.set(func(f *fake) { f.change = nil })
	p.Until(`document.querySelector("#schedule-section").hidden && document.querySelector("#filters-section").hidden`)
}

// The filter of a source and the size of steps are changed after a confirmation. The dialog has the filter in effect.
func TestPage_ChangesFilterAndSchedule(t *testing.T) {
	f := newFake()
	p := browsertest.Open(t, browsertest.Chromium(t), serve(t, f).URL, browsertest.Usual)
	ready(p)
	p.Click("#action-filter")
	p.Until(`document.querySelector("#filter-where").value === "tokens >= 64"`)
	p.Run(`document.querySelector("#filter-source").value = "math"; document.querySelector("#filter-source").dispatchEvent(new Event("change"))`)
	p.Until(`document.querySelector("#filter-where").value === "meta.quality > 0.5"`)
	for _, b := range p.Barriers(browsertest.Axe(t)) {
		t.Error(b)
	}
	p.Do(chromedp.SetValue(chromedp.CSS("#filter-where"), " meta.quality > 0.9 "))
	f.set(func(f *fake) {
		f.fail = &fault.Error{Reason: fault.InvalidTicket, Message: "column 6: unknown value", Advice: "declare it"}
	})
	p.Expect("400")
	p.Click("dialog button.do")
	p.Until(`document.querySelector("dialog .problem").textContent.includes("column 6: unknown value declare it")`)
	f.set(func(f *fake) { f.fail = nil })
	p.Click("dialog button.do")
	p.Until(`document.querySelector("#acted").textContent.includes("Change a filter: takes effect at step 7,310")`)
	var filter api.FilterRequest
	if _, body := f.took("filter"); json.Unmarshal([]byte(body), &filter) != nil || filter.Source != "math" ||
		filter.Where == nil || *filter.Where != "meta.quality > 0.9" {
		t.Errorf("filtered with %s", body)
	}
	p.Click("#action-schedule")
	for _, b := range p.Barriers(browsertest.Axe(t)) {
		t.Error(b)
	}
	p.Do(chromedp.SetValue(chromedp.CSS("#phase-size"), "512"), chromedp.SetValue(chromedp.CSS("#phase-from"), "9000"),
		chromedp.SetValue(chromedp.CSS("#phase-counted"), "steps"),
		chromedp.SetValue(chromedp.CSS("#phase-lengths"), "4096, 32768"))
	p.Click("dialog button.do")
	p.Until(`document.querySelector("#acted").textContent.includes("takes effect at step 7,320")`)
	var sent struct{ Phases []runconfig.Phase }
	if _, body := f.took("schedule"); json.Unmarshal([]byte(body), &sent) != nil ||
		!reflect.DeepEqual(sent.Phases, []runconfig.Phase{{Rows: 512, FromStep: 9000, Buckets: []int{4096, 32768}}}) {
		t.Errorf("changed the schedule with %s", body)
	}
}
