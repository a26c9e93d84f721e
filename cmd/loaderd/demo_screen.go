package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

const (
	frameInterval = 200 * time.Millisecond
	lineInterval  = 2 * time.Second
)

// showLines runs the job and writes a line now and then.
func showLines(ctx context.Context, job *demoJob, w io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- job.run(ctx) }()
	tick := time.NewTicker(lineInterval)
	defer tick.Stop()
	var rates demoRates
	start := job.figures()
	rates.fill(&start)
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			f := job.figures()
			rates.fill(&f)
			if _, err := fmt.Fprintf(w, "%s\n%s", f.line(), job.notes.take()); err != nil {
				return fmt.Errorf("write progress: %w", err)
			}
		}
	}
}

// showScreen runs the job under a live view. The terminal is as it was when it returns.
func showScreen(ctx context.Context, job *demoJob, terminal *os.File) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &demoScreen{job: job, view: newDemoView(lipgloss.NewRenderer(terminal)), stop: func() { cancel(errStopped) }, figures: job.figures()}
	s.rates.fill(&s.figures)
	// The program does not end with ctx: it shows how the job ends, which does.
	program := tea.NewProgram(s, tea.WithOutput(terminal), tea.WithAltScreen(), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		err := job.run(ctx)
		ended <- err
		program.Send(jobEnded{})
	}()
	if _, err = program.Run(); err != nil {
		cancel(err)
		return false, errors.Join(fmt.Errorf("show the live view: %w", err), <-ended)
	}
	cancel(errStopped) // the view can be left before the job has ended
	err = <-ended
	if s.stopping {
		if errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
			err = nil
		}
		return true, err
	}
	return false, err
}

// demoScreen is the live view as a bubbletea model.
type demoScreen struct {
	job           *demoJob
	view          demoView
	stop          func()
	stopping      bool
	figures       demoFigures
	rates         demoRates
	width, height int
}

type (
	nextFrame struct{}
	jobEnded  struct{}
)

func frame() tea.Cmd {
	return tea.Tick(frameInterval, func(time.Time) tea.Msg { return nextFrame{} })
}

// Init implements tea.Model.
func (s *demoScreen) Init() tea.Cmd { return frame() }

// Update implements tea.Model.
func (s *demoScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			if s.stopping { // asked twice: leave the view, so that ctrl-C is a signal again
				return s, tea.Quit
			}
			s.stopping = true
			s.stop()
		}
	case jobEnded:
		return s, tea.Quit
	case nextFrame:
		s.figures = s.job.figures()
		s.rates.fill(&s.figures)
		return s, frame()
	}
	return s, nil
}

// View implements tea.Model.
func (s *demoScreen) View() string {
	if s.width == 0 {
		return "" // the size comes first
	}
	f := s.figures
	if s.stopping {
		f.Phase = "stopping"
	}
	return s.view.render(f, s.width, s.height)
}
