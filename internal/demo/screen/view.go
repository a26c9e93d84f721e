package screen

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"loaderd/internal/demo"
	"loaderd/internal/quantity"
	"loaderd/internal/stats"
)

// view draws figures for a terminal. It is a function of the figures and the size alone.
type view struct {
	title, label, value, bar, rest, note lipgloss.Style
}

// newView draws in the colours that the renderer's terminal has: none where NO_COLOR is set.
func newView(r *lipgloss.Renderer) view {
	return view{
		title: r.NewStyle().Bold(true),
		label: r.NewStyle().Faint(true),
		value: r.NewStyle().Bold(true),
		bar:   r.NewStyle().Foreground(lipgloss.Color("6")),
		rest:  r.NewStyle().Foreground(lipgloss.Color("8")),
		note:  r.NewStyle().Foreground(lipgloss.Color("3")),
	}
}

const (
	viewMargin = 1
	viewWidest = 110
	cellWidth  = 24 // of a figure with its label, at least
)

// cell is a figure with its label.
type cell struct{ label, value string }

// level is a bounded quantity, drawn as a bar.
type level struct {
	label       string
	part        float64 // filled, 0 to 1
	long, brief string  // in a wide and in a narrow terminal
}

// render draws at most height lines (0: as many as it takes) of at most width columns.
func (v view) render(f demo.Figures, width, height int) string {
	w := max(20, min(width-2*viewMargin, viewWidest))
	state := fmt.Sprintf("%s  %.1f s", f.Phase, f.Elapsed.Seconds())
	lines := []string{
		v.between(v.title.Render("loaderd demo"), v.label.Render(state), w),
		v.label.Render(cut(f.From, w)),
		v.label.Render(cut(f.Settings, w)),
		"",
	}
	lines = append(lines, v.grid(cells(f), w)...)
	lines = append(lines, "")
	for _, l := range levels(f) {
		lines = append(lines, v.level(l, w))
	}
	lines = append(lines, "")
	if f.Note != "" {
		lines = append(lines, v.note.Render(cut(f.Note, w)), "")
	}
	lines = append(lines, v.label.Render("q stops"))
	lines = fitHeight(lines, height)
	for i, l := range lines {
		if l != "" {
			lines[i] = strings.Repeat(" ", viewMargin) + l
		}
	}
	return strings.Join(lines, "\n")
}

// cells are the figures, three that belong together a line where there is room.
func cells(f demo.Figures) []cell {
	return []cell{
		{"tokens/s", quantity.Short(f.Now.Tokens)}, {"tokens/s, mean", quantity.Short(f.Mean.Tokens)}, {"tokens", quantity.Short(float64(f.Tokens))},
		{"documents/s", quantity.Short(f.Now.Documents)}, {"documents/s, mean", quantity.Short(f.Mean.Documents)}, {"documents", quantity.Count(f.Stats.Documents)},
		{"steps read", quantity.Count(f.Read)}, {"padding", fmt.Sprintf("%.2f %%", 100*stats.Padding(f.Stats))}, {"truncated",
			fmt.Sprintf("%.1f %%", 100*stats.Truncated(f.Stats))},
	}
}

func levels(f demo.Figures) []level {
	s := f.Stats
	of := func(label string, a, b int64, thing string) level {
		return level{label, stats.Share(a, b), fmt.Sprintf("%s of %s %s", quantity.Count(a), quantity.Count(b), thing), quantity.Short(float64(a)) + "/" +
			quantity.Short(float64(b))}
	}
	cache := level{"cache", stats.Share(s.CacheBytes, f.CacheBytes), quantity.Bytes(s.CacheBytes), quantity.Bytes(s.CacheBytes)}
	if s.CacheHits+s.CacheMisses > 0 {
		cache.long += fmt.Sprintf(", %.1f %% hits", 100*stats.CacheHits(s))
	}
	return []level{
		{"published", f.Published, quantity.Count(f.Offered) + " documents", quantity.Short(float64(f.Offered))},
		of("stream", int64(s.Cursor), int64(s.Source.Last), "documents"),
		of("pool", int64(s.PoolPieces), int64(f.Pool), "pieces"),
		of("shuffle", int64(s.WindowRows), int64(f.Window), "rows"),
		of("queue", int64(s.QueueRows), int64(f.Rows), "rows"),
		of("reader lag", f.Lag(), int64(f.Ahead), "steps"),
		cache,
	}
}

// grid lays cells out in as many columns of a line as fit, three at most.
func (v view) grid(cells []cell, w int) []string {
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
			line += v.between(v.label.Render(c.label), v.value.Render(c.value), width-gap) + strings.Repeat(" ", gap)
		}
		lines = append(lines, line)
		cells = cells[min(columns, len(cells)):]
	}
	return lines
}

// level draws a labelled bar.
func (v view) level(l level, w int) string {
	const label, roomy = 11, 60
	text, room := l.long, 27
	if w < roomy {
		text, room = l.brief, 12
	}
	size := max(1, w-label-1-room)
	full := min(size, max(0, int(l.part*float64(size)+0.5)))
	bar := v.bar.Render(strings.Repeat("█", full)) + v.rest.Render(strings.Repeat("░", size-full))
	return v.label.Render(fmt.Sprintf("%-*s", label, l.label)) + bar + " " + v.value.Render(fmt.Sprintf("%*s", room, cut(text, room)))
}

// between puts a at the left and b at the right end of w columns.
func (v view) between(a, b string, w int) string {
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
