package cli

import (
	"fmt"
	"io"
	"time"
)

// progress says now and then how far a slow command is; a quick one says nothing.
type progress struct {
	w    io.Writer
	last time.Time
}

const progressEvery = time.Second

func newProgress(w io.Writer) *progress { return &progress{w, time.Now()} }

func (p *progress) say(format string, args ...any) {
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}
