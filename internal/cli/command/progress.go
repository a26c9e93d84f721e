package command

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows the progress of a slow command: a bar on a terminal, elsewhere a line per second. It shows nothing
// for a command of less than a second.
type Progress struct {
	w    io.Writer
	unit string
	last time.Time                // of a report, or the start
	bar  *progressbar.ProgressBar // nil without a terminal, and before the first report
}

const progressEvery = time.Second

// NewProgress returns a Progress that writes to w. unit is in the plural: steps.
func NewProgress(w io.Writer, unit string) *Progress {
	return &Progress{w: w, unit: unit, last: time.Now()}
}

// Report shows how much of the work is done.
func (p *Progress) Report(done, total int64) {
	now := time.Now()
	if p.bar == nil && now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	switch {
	case p.bar != nil:
		p.bar.ChangeMax64(total)
		_ = p.bar.Set64(done) // the terminal is gone
	case Terminal(p.w) != nil:
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowCount(),
			progressbar.OptionSetDescription(p.unit), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(progressEvery/10))
		_ = p.bar.Set64(done)
	default:
		fmt.Fprintf(p.w, "%d of %d %s\n", done, total, p.unit)
	}
}

// Finish removes the bar.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish() // the terminal is gone
	}
}
