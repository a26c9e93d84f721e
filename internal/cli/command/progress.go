package command

import (
	"fmt"
	"io"
	"time"
)

// Progress says now and then how far a slow command is; a quick one says nothing.
type Progress struct {
	w    io.Writer
	last time.Time
}

const progressEvery = time.Second

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{w, time.Now()} }

func (p *Progress) Say(format string, args ...any) {
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}
