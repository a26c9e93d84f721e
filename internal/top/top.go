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

// StatusFunc requests the status from a daemon.
type StatusFunc func(ctx context.Context) (api.Status, error)

// refreshInterval is the interval of requests.
const refreshInterval = 500 * time.Millisecond

// Run displays the status until the user quits or ctx ends. It repeats failed requests, and meanwhile displays the
// last status with its age. where is the name of the daemon.
func Run(ctx context.Context, where string, ask StatusFunc, terminal *os.File) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &model{ctx: ctx, daemonName: where, fetch: ask, view: tui.New(lipgloss.NewRenderer(terminal)), now: time.Now}
	_, err := tea.NewProgram(m, tea.WithOutput(terminal), tea.WithAltScreen(), tea.WithContext(ctx)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// model is the live view as a bubbletea model.
type model struct {
	ctx           context.Context
	daemonName    string
	fetch         StatusFunc
	view          tui.View
	now           func() time.Time
	status        *api.Status // nil before the first response
	err           error       // of the last request
	width, height int
}

type (
	statusMsg struct {
		status api.Status
		err    error
	}
	refreshMsg struct{}
)

func (m *model) requestStatus() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, 10*refreshInterval)
	defer cancel()
	s, err := m.fetch(ctx)
	return statusMsg{s, err}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.requestStatus }

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
	case statusMsg:
		if m.err = msg.err; m.err == nil {
			m.status = &msg.status
		}
		return m, tea.Tick(refreshInterval, func(time.Time) tea.Msg { return refreshMsg{} })
	case refreshMsg:
		return m, m.requestStatus
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() string {
	if m.width == 0 {
		return "" // the window size is not known yet
	}
	return m.view.Render(m.content(), m.width, m.height)
}

func (m *model) content() tui.Content {
	if m.status == nil {
		p := tui.Content{Title: "loaderd top", State: m.daemonName, Verdict: "Asking " + m.daemonName, Keys: "q leaves"}
		if m.err != nil {
			p.Verdict, p.Tone = m.err.Error(), tui.Critical
		}
		return p
	}
	p := NewContent(*m.status)
	p.State = m.daemonName
	if m.err != nil {
		p.Tone, p.Verdict = tui.Critical, fmt.Sprintf("No answer for %s: %v",
			m.now().Sub(m.status.Time).Round(time.Second), m.err)
	}
	return p
}
