// Package screen draws the figures of one moment for a terminal.
package screen

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// View draws pictures. What it draws is a function of the picture and the size alone.
type View struct {
	title, label, value, bar, rest, note, alarm lipgloss.Style
}

// New draws in the colours that the renderer's terminal has: none where NO_COLOR is set.
func New(r *lipgloss.Renderer) View {
	return View{
		title: r.NewStyle().Bold(true),
		label: r.NewStyle().Faint(true),
		value: r.NewStyle().Bold(true),
		bar:   r.NewStyle().Foreground(lipgloss.Color("6")),
		rest:  r.NewStyle().Foreground(lipgloss.Color("8")),
		note:  r.NewStyle().Foreground(lipgloss.Color("3")),
		alarm: r.NewStyle().Bold(true).Foreground(lipgloss.Color("1")),
	}
}

const (
	viewMargin = 1
	viewWidest = 110
	cellWidth  = 24 // of a figure with its label, at least
)

// Picture is what is drawn, from top to bottom.
type Picture struct {
	Title, State string
	Verdict      string // a sentence, cut at nothing
	Tone         Tone   // of that
	Lines        []string
	Cells        []Cell  // three that belong together a line where there is room
	Levels       []Level // bars
	Tables       [][]string
	Note         string // what needs attention
	Keys         string
}

// Tone is how a verdict looks.
type Tone int

// Tones.
const (
	Plain Tone = iota
	Noted
	Alarming
)

// Cell is a figure with its label.
type Cell struct{ Label, Value string }

// Level is a bounded quantity, drawn as a bar.
type Level struct {
	Label       string
	Part        float64 // filled, 0 to 1
	Long, Brief string  // in a wide and in a narrow terminal
	Marked      bool    // what the others wait for
}

// Render draws at most height lines (0: as many as it takes) of at most width columns.
func (v View) Render(p Picture, width, height int) string {
	w := max(20, min(width-2*viewMargin, viewWidest))
	lines := []string{v.between(v.title.Render(cut(p.Title, w-1-lipgloss.Width(p.State))), v.label.Render(p.State), w)}
	if p.Verdict != "" {
		style := map[Tone]lipgloss.Style{Plain: v.title, Noted: v.note.Bold(true), Alarming: v.alarm}[p.Tone]
		for _, line := range wrap(p.Verdict, w) {
			lines = append(lines, style.Render(line))
		}
	}
	for _, line := range p.Lines {
		lines = append(lines, v.label.Render(cut(line, w)))
	}
	if len(p.Cells) > 0 {
		lines = append(lines, "")
		lines = append(lines, v.grid(p.Cells, w)...)
	}
	if len(p.Levels) > 0 {
		lines = append(lines, "")
	}
	for _, l := range p.Levels {
		lines = append(lines, v.level(l, w))
	}
	lines = append(lines, "")
	for _, t := range p.Tables {
		for i, line := range t {
			if line = cut(line, w); i == 0 {
				line = v.label.Render(line)
			}
			lines = append(lines, line)
		}
		lines = append(lines, "")
	}
	if p.Note != "" {
		lines = append(lines, v.note.Render(cut(p.Note, w)), "")
	}
	lines = append(lines, v.label.Render(cut(p.Keys, w)))
	lines = fitHeight(lines, height)
	for i, l := range lines {
		if l != "" {
			lines[i] = strings.Repeat(" ", viewMargin) + l
		}
	}
	return strings.Join(lines, "\n")
}

// wrap breaks text into lines of w columns, between words where it can.
func wrap(text string, w int) []string {
	lines := strings.Split(lipgloss.NewStyle().Width(w).Render(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// grid lays cells out in as many columns of a line as fit, three at most.
func (v View) grid(cells []Cell, w int) []string {
	columns := max(1, min(3, w/cellWidth))
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
			line += v.between(v.label.Render(c.Label), v.value.Render(c.Value), width-gap) + strings.Repeat(" ", gap)
		}
		lines = append(lines, line)
		cells = cells[min(columns, len(cells)):]
	}
	return lines
}

// level draws a labelled bar.
func (v View) level(l Level, w int) string {
	const label, roomy = 11, 60
	text, room := l.Long, 27
	if w < roomy {
		text, room = l.Brief, 12
	}
	size := max(1, w-label-1-room)
	full := min(size, max(0, int(l.Part*float64(size)+0.5)))
	style, name := v.bar, l.Label
	if l.Marked {
		style, name = v.note, name+" ◀"
	}
	bar := style.Render(strings.Repeat("█", full)) + v.rest.Render(strings.Repeat("░", size-full))
	return v.label.Render(fmt.Sprintf("%-*s", label, name)) + bar + " " +
		v.value.Render(fmt.Sprintf("%*s", room, cut(text, room)))
}

// between puts a at the left and b at the right end of w columns.
func (v View) between(a, b string, w int) string {
	return a + strings.Repeat(" ", max(1, w-lipgloss.Width(a)-lipgloss.Width(b))) + b
}

// cut shortens text to w columns.
func cut(s string, w int) string {
	if lipgloss.Width(s) <= w {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && lipgloss.Width(string(r)) > w-1 {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// fitHeight leaves empty lines out, and then the last ones, until height lines are left.
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
