package publishcmd

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"loaderd/internal/cli/command"
	"loaderd/internal/corpus"
	"loaderd/internal/humanize"
	"loaderd/internal/publishing"
)

// Intervals of progress reports: a bar on a terminal, a line elsewhere.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

// publishReport shows the progress of a publish.
type publishReport struct {
	ctx context.Context // ends with an interrupt, after which nothing is printed
	w   io.Writer
	bar *progressbar.ProgressBar // nil when w is not a terminal

	mu sync.Mutex // guards w
}

func newPublishReport(ctx context.Context, w io.Writer, inputs []*corpus.Input) *publishReport {
	r := &publishReport{ctx: ctx, w: w}
	if command.Terminal(w) != nil {
		total := int64(0)
		for _, in := range inputs {
			total += in.Bytes
		}
		if total == 0 {
			total = -1 // standard input: size unknown
		}
		r.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
			progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth(), progressbar.OptionThrottle(barEvery/2),
			progressbar.OptionClearOnFinish())
	}
	return r
}

// start shows progress until the returned function is called.
func (r *publishReport) start(progress func() publishing.Progress) (stop func()) {
	every := lineEvery
	if r.bar != nil {
		every = barEvery
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				if r.bar != nil {
					r.mu.Lock()
					defer r.mu.Unlock()
					_ = r.bar.Finish() // the terminal is gone
				}
				return
			case <-tick.C:
				r.show(progress(), time.Since(began))
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

func (r *publishReport) show(now publishing.Progress, took time.Duration) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%d documents, %.0f/s", now.Documents, float64(now.Documents)/took.Seconds())
	left := timeLeft(now.Read, now.Total, took)
	if now.Waiting != "" {
		left = ", waiting" // the waiting time is unknown
	}
	if r.bar != nil {
		r.bar.Describe(text + left)
		_ = r.bar.Set64(now.Read) // the terminal is gone
		return
	}
	fmt.Fprintln(r.w, text+readOf(now.Read, now.Total)+left)
}

// readOf formats the part of the files that has been read.
func readOf(read, total int64) string {
	if total <= 0 {
		return fmt.Sprintf(", %s read", humanize.Bytes(read))
	}
	return fmt.Sprintf(", %s of %s read", humanize.Bytes(read), humanize.Bytes(total))
}

// timeLeft estimates the remaining time at the present rate, empty if it cannot be estimated.
func timeLeft(read, total int64, took time.Duration) string {
	if read <= 0 || read >= total {
		return ""
	}
	left := time.Duration(float64(took) * float64(total-read) / float64(read))
	return fmt.Sprintf(", about %s left", left.Round(time.Second))
}

// waits reports the reason why publishing has stalled.
func (r *publishReport) waits(reason string) {
	if r.ctx.Err() != nil {
		return
	}
	if reason == "" {
		reason = "continuing"
	} else {
		reason = "waiting: " + reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Clear() // the terminal is gone
	}
	fmt.Fprintln(r.w, reason)
}

// warn prints a warning for the producer. It prints nothing if what is empty.
func (r *publishReport) warn(what string) {
	if what == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Clear() // the terminal is gone
	}
	fmt.Fprintln(r.w, "warning: "+what)
}
