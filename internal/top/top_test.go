package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"loaderd/internal/api"
	"loaderd/internal/goldentest"
	"loaderd/internal/tui"
	"loaderd/loader/diagnosis"
	"loaderd/loader/state"
)

var at = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// someStatus returns the status of a run with two sources and many ranks, one of which lags.
func someStatus() api.Status {
	dry, ends := at.Add(-3*time.Minute), 7260.0
	s := api.Status{Run: "pretrain", Time: at, Daemon: "node-0/71/x", Planned: 7231, Sent: new(uint64(7231)),
		Consumed: new(uint64(7191)), Committed: 7000, EndsIn: &ends,
		Verdict: diagnosis.Verdict{Health: diagnosis.Waiting, Sentence: "Waiting for documents of source math, 3 min",
			Advice: "publish more documents, or seal the run to get the rest", Bottleneck: "published"},
		Rates:   api.Rates{Rates: state.Rates{Tokens: 12.4e6, Documents: 5120}, Bytes: 52e6},
		Streams: []state.StreamFill{{Source: "math", Name: "DOCS_math", Bytes: 3 << 30, MaxBytes: 4 << 30}},
		Flow: []api.Stage{{Name: "published", Value: 120_000, Limit: 120_500, Unit: "documents", Bottleneck: true},
			{Name: "tokenized", Value: 5 << 20, Limit: 64 << 20, Unit: "bytes"},
			{Name: "pool", Value: 4000, Limit: 8192, Unit: "pieces"}, {Name: "ahead", Value: 60, Limit: 64, Unit: "steps"},
			{Name: "committed", Value: 7000}},
		Sources: []api.SourceStatus{{Name: "code", Target: .25, Recent: new(.2512), Tokens: 31e6, Epochs: "1", Sealed: true},
			{Name: "math", Target: .75, Recent: new(.7488), Tokens: 93e6, Epochs: "forever", DrySince: &dry, Next: 9,
				Stored: 8}},
		Packing: api.PackingStatus{Padding: .0012, Split: .31}, Dead: api.DeadStatus{Total: 12},
		Events: []api.Event{{Time: at, Kind: "warning", Text: "readers wait for a step, step 7231"}}}
	for i := range 16 {
		s.Ranks = append(s.Ranks, api.RankStatus{Job: "trainer", Rank: i, World: 16, Sent: 7231, Consumed: 7231,
			State: api.StateReading, Unit: api.UnitRead, WaitP50: .0123, WaitP99: 1.5, Bytes: 3e6})
	}
	s.Ranks[5].Lag, s.Ranks[5].Consumed, s.Ranks[5].State, s.Ranks[5].StateSeconds = 40, 7191, "silent", 20
	return s
}

func TestView_GoldenOutput(t *testing.T) {
	time.Local = time.UTC
	view := tui.New(lipgloss.NewRenderer(io.Discard))
	for _, test := range []struct {
		file          string
		status        api.Status
		width, height int
	}{
		{"wide", someStatus(), 140, 60},
		{"normal", someStatus(), 80, 24},
		{"narrow", someStatus(), 40, 40},
		{"begins", api.Status{Run: "pretrain"}, 80, 24},
	} {
		t.Run(test.file, func(t *testing.T) {
			goldentest.Compare(t, test.file+".txt", func(w io.Writer) error {
				_, err := io.WriteString(w, view.Render(NewContent(test.status), test.width, test.height)+"\n")
				return err
			})
		})
	}
}

// The view fits any window size.
func TestView_FitsWindow(t *testing.T) {
	view := tui.New(lipgloss.NewRenderer(io.Discard))
	long := someStatus()
	long.Run, long.Verdict.Sentence = strings.Repeat("長", 200), strings.Repeat("word ", 100)
	for _, s := range []api.Status{someStatus(), {}, long} {
		for width := 40; width <= 200; width += 3 {
			for _, height := range []int{1, 5, 24, 80} {
				lines := strings.Split(view.Render(NewContent(s), width, height), "\n")
				if len(lines) > height {
					t.Fatalf("%d lines at a height of %d", len(lines), height)
				}
				for _, l := range lines {
					if lipgloss.Width(l) > width {
						t.Fatalf("at a width of %d: %d columns: %s", width, lipgloss.Width(l), l)
					}
				}
			}
		}
	}
}

// Failed requests are repeated, and the last status is displayed with its age.
func TestModel_RetriesAndShowsAgeOfStatus(t *testing.T) {
	answer, fails := someStatus(), errors.New("connection refused")
	m := &model{ctx: t.Context(), daemonName: "grpc://a:1", view: tui.New(lipgloss.NewRenderer(io.Discard)),
		now:   func() time.Time { return at.Add(7 * time.Second) },
		fetch: func(context.Context) (api.Status, error) { return answer, fails }}
	says := func(want string) {
		t.Helper()
		if got := m.View(); !strings.Contains(got, want) {
			t.Errorf("it shows\n%s\nwithout %q", got, want)
		}
	}
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	says("Asking grpc://a:1")
	_, next := m.Update(m.Init()())
	says("connection refused")
	if next == nil {
		t.Fatal("it is not asked again")
	}
	fails = nil
	m.Update(m.requestStatus())
	says("Waiting for documents of source math")
	fails = errors.New("gone")
	m.Update(m.requestStatus())
	says("No answer for 7s: gone")
	says("published")
	if _, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'q'}}); cmd == nil {
		t.Error("q does not leave")
	}
}
