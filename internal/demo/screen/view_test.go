package screen

import (
	"io"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"loaderd/internal/demo"
	"loaderd/internal/goldentest"
	"loaderd/internal/stats"
	"loaderd/internal/tui"
	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/planner"
)

// plainView draws without colours, because the writer is not a terminal.
func plainView() tui.View { return tui.New(lipgloss.NewRenderer(io.Discard)) }

func someFigures() demo.Snapshot {
	return demo.Snapshot{
		Input: "/usr/local/go/src", Page: "http://127.0.0.1:4713",
		Settings: "gpt2, bfd, rows of 2048 tokens, 64 rows a step, 2 readers", Phase: "streaming",
		Elapsed: 4800 * time.Millisecond, World: 2,
		Published: 0.38, Offered: 4235, StepsRead: 79, Tokens: 10_354_688,
		RecentRates: stats.Rates{Documents: 1350, Tokens: 4.66e6},
		MeanRates: stats.Rates{Documents: 648,
			Tokens: 2.17e6},
		Window: 1024, Ahead: 64, CacheBytes: 1 << 30,
		Stats: loader.Stats{Planned: 82, Documents: 3099, Slots: 10_747_904, Padding: 1234, Truncated: 648, PoolPieces: 3099,
			Capacity: planner.Capacity{Pool: 4096, Rows: 64}, WindowRows: 1024, QueueRows: 21,
			Cursor:     3099,
			CacheBytes: 56 << 20, CacheHits: 9999, CacheMisses: 1, Source: document.SourceStatus{Last: 3216}},
	}
}

func TestView_GoldenOutput(t *testing.T) {
	noted := someFigures()
	noted.Note = "level=WARN msg=\"the disk is smaller than a stream may grow: the stream's bound is lowered\" stream=DOCS"
	killed := someFigures()
	killed.Events = []demo.Event{
		{Elapsed: 2100 * time.Millisecond, Text: "killed rank 1 after step 19; the job resumes at step 16"},
		{Elapsed: 3650 * time.Millisecond, Text: "killed the daemon after step 39; a new one serves after 900 ms"},
	}
	comparing := killed
	comparing.Phase, comparing.StepsCompared = demo.Comparing, 31
	for _, test := range []struct {
		file          string
		figures       demo.Snapshot
		width, height int
	}{
		{"wide", someFigures(), 120, 40},
		{"normal", someFigures(), 80, 24},
		{"noted", noted, 80, 24},
		{"narrow", someFigures(), 40, 24},
		{"low", someFigures(), 80, 9},
		{"killed", killed, 80, 24},
		{"comparing", comparing, 80, 24},
		{"start", demo.Snapshot{Input: "docs", Phase: "starting"}, 80, 24},
	} {
		t.Run(test.file, func(t *testing.T) {
			goldentest.Compare(t, test.file+".txt", func(w io.Writer) error {
				_, err := io.WriteString(w, plainView().Render(newContent(test.figures), test.width, test.height)+"\n")
				return err
			})
		})
	}
}

func TestView_FitsTerminal(t *testing.T) {
	for _, f := range []demo.Snapshot{someFigures(), {}, {Input: strings.Repeat("長", 99), Note: strings.Repeat("x", 300),
		Stats: loader.Stats{Planned: 1 << 40, PoolPieces: 1 << 40}}} {
		for width := 40; width <= 200; width++ {
			for _, height := range []int{1, 5, 24, 60} {
				lines := strings.Split(plainView().Render(newContent(f), width, height), "\n")
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

func TestScreen_KeysStopAndQuit(t *testing.T) {
	stops := 0
	s := &liveModel{view: plainView(), stop: func() { stops++ }, snapshot: someFigures()}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	if view := s.View(); !strings.Contains(view, "streaming") {
		t.Errorf("before a key:\n%s", view)
	}
	q := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'q'}}
	if _, cmd := s.Update(q); cmd != nil || stops != 1 || !strings.Contains(s.View(), "stopping") {
		t.Errorf("first q: command %v, %d stops, view:\n%s", cmd != nil, stops, s.View())
	}
	if _, cmd := s.Update(tea.KeyMsg{Type: tea.KeyCtrlC}); cmd == nil || stops != 1 {
		t.Errorf("second key: command %v, %d stops, want to quit without waiting", cmd != nil, stops)
	}
	if _, cmd := s.Update(jobEnded{}); cmd == nil {
		t.Error("the end of the job does not end the view")
	}
}
