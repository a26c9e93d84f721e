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

// RunLines runs the job and writes a line at intervals, and one for each event.
func RunLines(ctx context.Context, job *demo.Job, w io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- job.Run(ctx) }()
	tick := time.NewTicker(lineInterval)
	defer tick.Stop()
	look := time.NewTicker(frameInterval)
	defer look.Stop()
	l := lines{w: w}
	l.rates.SetRecentRates(new(job.Snapshot()))
	for {
		var err error
		select {
		case err := <-ended:
			return errors.Join(err, l.news(job.Snapshot()))
		case <-look.C:
			err = l.news(job.Snapshot())
		case <-tick.C:
			f := job.Snapshot()
			l.rates.SetRecentRates(&f)
			err = l.write("%s\n%s", formatLine(f), job.LogBuffer.TakeLines())
		}
		if err != nil {
			return err
		}
	}
}

// lines writes the state of a job as lines.
type lines struct {
	w      io.Writer
	rates  demo.RateWindow
	page   bool // was written
	events int  // number of written events
}

// news writes what has happened since the last call.
func (l *lines) news(f demo.Snapshot) error {
	if f.Page != "" && !l.page {
		l.page = true
		if err := l.write("the live page is at %s\n", f.Page); err != nil {
			return err
		}
	}
	for _, e := range f.Events[l.events:] {
		l.events++
		if err := l.write("%6.1f s  %s\n", e.Elapsed.Seconds(), e.Text); err != nil {
			return err
		}
	}
	return nil
}

func (l *lines) write(format string, values ...any) error {
	if _, err := fmt.Fprintf(l.w, format, values...); err != nil {
		return fmt.Errorf("write progress: %w", err)
	}
	return nil
}

// formatLine formats the values as one line.
func formatLine(f demo.Snapshot) string {
	if f.Phase == demo.Comparing {
		return fmt.Sprintf("%6.1f s  %s: %s of %s steps", f.Elapsed.Seconds(), f.Phase, humanize.Count(f.StepsCompared),
			humanize.Count(f.StepsRead))
	}
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
