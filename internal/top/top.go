// Package top shows the state of a run on a terminal and updates it continuously. It displays the status of a daemon.
package top

import (
	"context"
	"fmt"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"loaderd/internal/api"
	"loaderd/internal/tui"
)

// Ask requests the status from a daemon.
type Ask func(ctx context.Context) (api.Status, error)

// every is the interval of requests.
const every = 500 * time.Millisecond

// Show displays the status until the user quits or ctx ends. It repeats failed requests, and meanwhile displays the
// last status with its age. where is the name of the daemon.
func Show(ctx context.Context, where string, ask Ask, terminal *os.File) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &model{ctx: ctx, where: where, ask: ask, view: tui.New(lipgloss.NewRenderer(terminal)), now: time.Now}
	_, err := tea.NewProgram(m, tea.WithOutput(terminal), tea.WithAltScreen(), tea.WithContext(ctx)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// model is the live view as a bubbletea model.
type model struct {
	ctx           context.Context
	where         string
	ask           Ask
	view          tui.View
	now           func() time.Time
	status        *api.Status // nil before the first response
	err           error       // of the last request
	width, height int
}

type (
	answered struct {
		status api.Status
		err    error
	}
	again struct{}
)

func (m *model) look() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, 10*every)
	defer cancel()
	s, err := m.ask(ctx)
	return answered{s, err}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.look }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
	case answered:
		if m.err = msg.err; m.err == nil {
			m.status = &msg.status
		}
		return m, tea.Tick(every, func(time.Time) tea.Msg { return again{} })
	case again:
		return m, m.look
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() string {
	if m.width == 0 {
		return "" // the window size is not known yet
	}
	return m.view.Render(m.picture(), m.width, m.height)
}

func (m *model) picture() tui.Picture {
	if m.status == nil {
		p := tui.Picture{Title: "loaderd top", State: m.where, Verdict: "Asking " + m.where, Keys: "q leaves"}
		if m.err != nil {
			p.Verdict, p.Tone = m.err.Error(), tui.Alarming
		}
		return p
	}
	p := Picture(*m.status)
	p.State = m.where
	if m.err != nil {
		p.Tone, p.Verdict = tui.Alarming, fmt.Sprintf("No answer for %s: %v",
			m.now().Sub(m.status.Time).Round(time.Second), m.err)
	}
	return p
}
