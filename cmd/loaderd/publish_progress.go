package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"loaderd/internal/corpus"
	"loaderd/stream"
)

// How often progress is shown: a bar on a terminal, a line elsewhere.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

// publishReport shows how a publish goes.
type publishReport struct {
	ctx    context.Context // ends with an interrupt, after which nothing is announced
	w      io.Writer
	inputs []*corpus.Input
	total  int64
	bar    *progressbar.ProgressBar // nil when w is not a terminal

	mu sync.Mutex // guards w
}

func newPublishReport(ctx context.Context, w io.Writer, inputs []*corpus.Input) *publishReport {
	r := &publishReport{ctx: ctx, w: w, inputs: inputs}
	for _, in := range inputs {
		r.total += in.Bytes
	}
	if terminal(w) != nil {
		total := r.total
		if total == 0 {
			total = -1 // standard input: nobody knows
		}
		r.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
			progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth(), progressbar.OptionThrottle(barEvery/2),
			progressbar.OptionClearOnFinish())
	}
	return r
}

// start shows progress until the returned function is called.
func (r *publishReport) start(p *stream.Publisher) (stop func()) {
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
					_ = r.bar.Finish() // the terminal is gone: nothing to show
				}
				return
			case <-tick.C:
				r.show(p.Progress(), time.Since(began))
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

func (r *publishReport) show(now stream.Published, took time.Duration) {
	if r.ctx.Err() != nil {
		return
	}
	var read int64
	for _, in := range r.inputs {
		read += in.Read()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%d documents, %.0f/s", now.Documents, float64(now.Documents)/took.Seconds())
	left := timeLeft(read, r.total, took)
	if now.Waiting != "" {
		left = ", waiting" // for how long, nobody knows
	}
	if r.bar != nil {
		r.bar.Describe(text + left)
		_ = r.bar.Set64(read) // the terminal is gone: nothing to show
		return
	}
	fmt.Fprintln(r.w, text+readOf(read, r.total)+left)
}

// readOf is how much of the files is read.
func readOf(read, total int64) string {
	if total <= 0 {
		return fmt.Sprintf(", %s read", byteCount(read))
	}
	return fmt.Sprintf(", %s of %s read", byteCount(read), byteCount(total))
}

// timeLeft is the time to the end if it goes on like that; empty when nobody can tell.
func timeLeft(read, total int64, took time.Duration) string {
	if read <= 0 || read >= total {
		return ""
	}
	left := time.Duration(float64(took) * float64(total-read) / float64(read))
	return fmt.Sprintf(", about %s left", left.Round(time.Second))
}

// waits tells why nothing goes on.
func (r *publishReport) waits(reason string) {
	if r.ctx.Err() != nil {
		return
	}
	if reason == "" {
		reason = "going on"
	} else {
		reason = "waiting: " + reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Clear() // the terminal is gone: nothing to show
	}
	fmt.Fprintln(r.w, reason)
}

// warn tells what a producer should know, unless it is nothing.
func (r *publishReport) warn(what string) {
	if what == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Clear() // the terminal is gone: nothing to show
	}
	fmt.Fprintln(r.w, "warning: "+what)
}

// byteCount is a number of bytes for people.
func byteCount(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// skippedMany are the reasons that are a noun; the others follow a number as they are.
var skippedMany = map[string]string{string(corpus.BadRecord): "bad records"}

// skippedLine lists what was left out, by reason.
func skippedLine(skipped map[string]int64) string {
	var parts []string
	for reason, n := range skipped {
		if what, ok := skippedMany[reason]; ok && n != 1 {
			reason = what
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
