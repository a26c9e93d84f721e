// Package screen displays a running demo: as a live view on a terminal, or as a line at intervals.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"loaderd/internal/demo"
	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/internal/tui"
)

const (
	frameInterval = 200 * time.Millisecond
	lineInterval  = 2 * time.Second
)

// RunLines runs the job and writes a line at intervals.
func RunLines(ctx context.Context, job *demo.Job, w io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- job.Run(ctx) }()
	tick := time.NewTicker(lineInterval)
	defer tick.Stop()
	look := time.NewTicker(frameInterval) // until there is a page
	defer look.Stop()
	var rates demo.RateWindow
	start := job.Snapshot()
	rates.SetRecentRates(&start)
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			f := job.Snapshot()
			if f.Page == "" {
				continue
			}
			look.Stop()
			if _, err := fmt.Fprintf(w, "the live page is at %s\n", f.Page); err != nil {
				return fmt.Errorf("write progress: %w", err)
			}
		case <-tick.C:
			f := job.Snapshot()
			rates.SetRecentRates(&f)
			if _, err := fmt.Fprintf(w, "%s\n%s", formatLine(f), job.LogBuffer.TakeLines()); err != nil {
				return fmt.Errorf("write progress: %w", err)
			}
		}
	}
}

// formatLine formats the values as one line.
func formatLine(f demo.Snapshot) string {
	return fmt.Sprintf("%6.1f s  %s: %s documents, %s steps read, %s tokens/s, padding %.2f %%, truncated %.1f %%, "+
		"pool %s, window %s, lag %s",
		f.Elapsed.Seconds(), f.Phase, humanize.Count(f.Stats.Documents), humanize.Count(f.StepsRead),
		humanize.Short(f.RecentRates.Tokens),
		100*stats.PaddingShare(f.Stats), 100*stats.TruncatedShare(f.Stats),
		humanize.Count(f.Stats.PoolPieces), humanize.Count(f.Stats.WindowRows), humanize.Things(int(f.Lag()), "step"))
}

// errStopped reports that the user stopped the demo in the live view.
var errStopped = errors.New("stopped")

// RunLive runs the job in a live view. It restores the terminal before it returns. stopped reports whether the user
// stopped the job.
func RunLive(ctx context.Context, job *demo.Job, terminal *os.File) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &liveModel{job: job, view: tui.New(lipgloss.NewRenderer(terminal)), stop: func() {
		cancel(errStopped)
	}, snapshot: job.Snapshot()}
	s.rates.SetRecentRates(&s.snapshot)
	// The program does not end with ctx, because it displays the end of the job, which does.
	program := tea.NewProgram(s, tea.WithOutput(terminal), tea.WithAltScreen(), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		err := job.Run(ctx)
		ended <- err
		program.Send(jobEnded{})
	}()
	if _, err = program.Run(); err != nil {
		cancel(err)
		return false, errors.Join(fmt.Errorf("show the live view: %w", err), <-ended)
	}
	cancel(errStopped) // the user can leave the view before the job has ended
	err = <-ended
	if s.stopping {
		if errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
			err = nil
		}
		return true, err
	}
	return false, err
}

// liveModel is the live view as a bubbletea model.
type liveModel struct {
	job           *demo.Job
	view          tui.View
	stop          func()
	stopping      bool
	snapshot      demo.Snapshot
	rates         demo.RateWindow
	width, height int
}

type (
	nextFrame struct{}
	jobEnded  struct{}
)

func scheduleFrame() tea.Cmd {
	return tea.Tick(frameInterval, func(time.Time) tea.Msg { return nextFrame{} })
}

// Init implements tea.Model.
func (s *liveModel) Init() tea.Cmd { return scheduleFrame() }

// Update implements tea.Model.
func (s *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			if s.stopping { // second request: leave the view, so that ctrl-C sends a signal again
				return s, tea.Quit
			}
			s.stopping = true
			s.stop()
		}
	case jobEnded:
		return s, tea.Quit
	case nextFrame:
		s.snapshot = s.job.Snapshot()
		s.rates.SetRecentRates(&s.snapshot)
		return s, scheduleFrame()
	}
	return s, nil
}

// View implements tea.Model.
func (s *liveModel) View() string {
	if s.width == 0 {
		return "" // the window size is not known yet
	}
	f := s.snapshot
	if s.stopping {
		f.Phase = "stopping"
	}
	return s.view.Render(newContent(f), s.width, s.height)
}
