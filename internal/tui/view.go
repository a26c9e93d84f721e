// Package tui draws values of one moment on a terminal.
package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// View draws pictures. The output depends only on the picture and the size.
type View struct {
	title, label, value, bar, emptyBar, note, alarm lipgloss.Style
}

// New returns a View with the colours of the renderer's terminal, without colours if NO_COLOR is set.
func New(r *lipgloss.Renderer) View {
	return View{
		title:    r.NewStyle().Bold(true),
		label:    r.NewStyle().Faint(true),
		value:    r.NewStyle().Bold(true),
		bar:      r.NewStyle().Foreground(lipgloss.Color("6")),
		emptyBar: r.NewStyle().Foreground(lipgloss.Color("8")),
		note:     r.NewStyle().Foreground(lipgloss.Color("3")),
		alarm:    r.NewStyle().Bold(true).Foreground(lipgloss.Color("1")),
	}
}

const (
	viewMargin   = 1
	maxViewWidth = 110
	minCellWidth = 24 // minimum, of a value with its label
)

// Content is the content of a view, from top to bottom.
type Content struct {
	Title, State string
	Verdict      string // a sentence, never truncated
	Tone         Tone   // of the verdict
	Lines        []string
	Cells        []Cell // grouped in lines of three if the width permits
	Bars         []Bar  // bars
	Tables       [][]string
	Note         string // message that needs attention
	Keys         string
}

// Tone is the style of a verdict.
type Tone int

// Tones.
const (
	Plain Tone = iota
	Warning
	Critical
)

// Cell is a value with its label.
type Cell struct{ Label, Value string }

// Bar is a bounded value, drawn as a bar.
type Bar struct {
	Label               string
	Fraction            float64 // filled part, 0 to 1
	LongText, ShortText string  // for a wide and for a narrow terminal
	Highlighted         bool    // the bottleneck of the run
}

// Render returns at most height lines (0: no limit) of at most width columns.
func (v View) Render(p Content, width, height int) string {
	w := max(20, min(width-2*viewMargin, maxViewWidth))
	lines := []string{v.justify(v.title.Render(truncate(p.Title, w-1-lipgloss.Width(p.State))), v.label.Render(p.State),
		w)}
	if p.Verdict != "" {
		style := map[Tone]lipgloss.Style{Plain: v.title, Warning: v.note.Bold(true), Critical: v.alarm}[p.Tone]
		for _, line := range wrap(p.Verdict, w) {
			lines = append(lines, style.Render(line))
		}
	}
	for _, line := range p.Lines {
		lines = append(lines, v.label.Render(truncate(line, w)))
	}
	if len(p.Cells) > 0 {
		lines = append(lines, "")
		lines = append(lines, v.grid(p.Cells, w)...)
	}
	if len(p.Bars) > 0 {
		lines = append(lines, "")
	}
	for _, l := range p.Bars {
		lines = append(lines, v.drawBar(l, w))
	}
	lines = append(lines, "")
	for _, t := range p.Tables {
		for i, line := range t {
			if line = truncate(line, w); i == 0 {
				line = v.label.Render(line)
			}
			lines = append(lines, line)
		}
		lines = append(lines, "")
	}
	if p.Note != "" {
		lines = append(lines, v.note.Render(truncate(p.Note, w)), "")
	}
	lines = append(lines, v.label.Render(truncate(p.Keys, w)))
	lines = fitHeight(lines, height)
	for i, l := range lines {
		if l != "" {
			lines[i] = strings.Repeat(" ", viewMargin) + l
		}
	}
	return strings.Join(lines, "\n")
}

// wrap splits text into lines of w columns, between words if possible.
func wrap(text string, w int) []string {
	lines := strings.Split(lipgloss.NewStyle().Width(w).Render(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// grid arranges cells in as many columns as fit, three at most.
func (v View) grid(cells []Cell, w int) []string {
	columns := max(1, min(3, w/minCellWidth))
	each := w / columns
	var lines []string
	for len(cells) > 0 {
		line := ""
		for i, c := range cells[:min(columns, len(cells))] {
			width := each
			if i == 0 {
				width = w - (columns-1)*each
			}
			gap := 3
			if i == columns-1 {
				gap = 0
			}
			line += v.justify(v.label.Render(c.Label), v.value.Render(c.Value), width-gap) + strings.Repeat(" ", gap)
		}
		lines = append(lines, line)
		cells = cells[min(columns, len(cells)):]
	}
	return lines
}

// drawBar draws a labelled bar.
func (v View) drawBar(l Bar, w int) string {
	const label, roomy = 11, 60
	text, room := l.LongText, 27
	if w < roomy {
		text, room = l.ShortText, 12
	}
	size := max(1, w-label-1-room)
	full := min(size, max(0, int(l.Fraction*float64(size)+0.5)))
	style, name := v.bar, l.Label
	if l.Highlighted {
		style, name = v.note, name+" ◀"
	}
	bar := style.Render(strings.Repeat("█", full)) + v.emptyBar.Render(strings.Repeat("░", size-full))
	return v.label.Render(fmt.Sprintf("%-*s", label, name)) + bar + " " +
		v.value.Render(fmt.Sprintf("%*s", room, truncate(text, room)))
}

// justify aligns a left and b right in w columns.
func (v View) justify(a, b string, w int) string {
	return a + strings.Repeat(" ", max(1, w-lipgloss.Width(a)-lipgloss.Width(b))) + b
}

// truncate truncates text to w columns.
func truncate(s string, w int) string {
	if lipgloss.Width(s) <= w {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && lipgloss.Width(string(r)) > w-1 {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// fitHeight removes empty lines, and then lines at the end, until height lines remain.
func fitHeight(lines []string, height int) []string {
	if height <= 0 {
		return lines
	}
	for i := len(lines) - 1; i >= 0 && len(lines) > height; i-- {
		if lines[i] == "" {
			lines = append(lines[:i:i], lines[i+1:]...)
		}
	}
	return lines[:min(len(lines), height)]
}
