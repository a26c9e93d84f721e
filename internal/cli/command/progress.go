package command

import (
	"fmt"
	"io"
	"time"
)

// Progress reports the progress of a slow command at most once per second. It reports nothing for a command of less
// than a second.
type Progress struct {
	w    io.Writer
	last time.Time
}

const progressEvery = time.Second

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{w, time.Now()} }

// Report writes a line, unless one was written in the last second.
func (p *Progress) Report(format string, args ...any) {
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}
