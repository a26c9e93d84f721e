package main

import (
	"fmt"
	"slices"
	"time"

	"loaderd/loader"
)

// demoFigures are what the live view shows of one moment.
type demoFigures struct {
	From     string // what the documents are
	Settings string
	Phase    string
	Elapsed  time.Duration
	World    int

	Published float64 // part of the documents that has been published, 0 to 1
	Offered   int64   // documents handed to the publisher
	Stats     loader.Stats
	Read      uint64 // steps that all readers have finished
	Tokens    int64  // that readers got

	DocumentsNow, TokensNow   float64 // a second, lately
	DocumentsMean, TokensMean float64 // a second, since the start

	Pool, Window, Rows, Ahead int // bounds of the levels
	CacheBytes                int64
	Note                      string // what needs attention
}

// lag is how many planned steps the readers have not finished.
func (f demoFigures) lag() int64 { return int64(f.Stats.Planned) - int64(f.Read) }

func (f demoFigures) padding() float64   { return 100 * part(f.Stats.Padding, f.Stats.Slots) }
func (f demoFigures) truncated() float64 { return 100 * part(f.Stats.Truncated, f.Stats.Documents) }

// figures looks at the job. The rates of now are left to a demoRates.
func (j *demoJob) figures() demoFigures {
	c := j.config
	f := demoFigures{From: j.from, Settings: demoSettings(c.Plan, c.Tokenizer.Name, j.world), Phase: "starting", Elapsed: time.Since(j.began), World: j.world,
		Pool: c.Plan.Packing.Pool, Window: c.Plan.Shuffle.Window, Rows: stepRows(c.Plan), Ahead: c.Serve.Ahead, CacheBytes: c.Serve.CacheBytes, Note: j.notes.last()}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.elapsed > 0 {
		f.Elapsed = j.elapsed
	}
	if j.daemon == nil {
		return f
	}
	f.Stats = j.daemon.Run().Stats()
	f.Published, f.Offered = j.publisher.progress(), j.publisher.documents.Load()
	f.Read, f.Tokens = j.ranks.steps.Load(), j.ranks.tokens.Load()
	f.DocumentsMean, f.TokensMean = quotient(float64(f.Stats.Documents), f.Elapsed.Seconds()), quotient(float64(f.Tokens), f.Elapsed.Seconds())
	switch {
	case j.complete:
		f.Phase = "complete"
	case f.Stats.Ended:
		f.Phase = "last steps"
	case j.publisher.done.Load():
		f.Phase = "all published"
	case f.Read > 0:
		f.Phase = "streaming"
	default:
		f.Phase = "filling pool and window"
	}
	return f
}

// stepRows is how many rows the queues of all buckets hold when each has a full step.
func stepRows(p loader.Config) (rows int) {
	for _, n := range p.Steps.PerBucket(p.Packing.Buckets) {
		rows += n
	}
	return rows
}

func demoSettings(p loader.Config, tokenizer string, world int) string {
	return fmt.Sprintf("%s, %s, rows of %s tokens, %s rows a step, %s", tokenizer, p.Packing.Method, span(p.Packing.Buckets),
		span(p.Steps.PerBucket(p.Packing.Buckets)), plural(world, "reader"))
}

// span names the least and the greatest of some numbers: 2,048, or 1,024 to 16,384.
func span(numbers []int) string {
	if len(numbers) == 0 { // the job ended before it knew
		return "no"
	}
	least, most := group(int64(slices.Min(numbers))), group(int64(slices.Max(numbers)))
	if least == most {
		return most
	}
	return least + " to " + most
}

// plural counts things: 1 reader, 2 readers.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%s %ss", group(int64(n)), thing)
}

// rateWindow is how far back a rate of now looks.
const rateWindow = 2 * time.Second

// demoRates fills in the rates of now from the figures of the last moments.
type demoRates struct{ past []demoFigures }

func (r *demoRates) fill(f *demoFigures) {
	for len(r.past) > 1 && f.Elapsed-r.past[1].Elapsed >= rateWindow {
		r.past = r.past[1:]
	}
	if len(r.past) > 0 {
		then := r.past[0]
		seconds := (f.Elapsed - then.Elapsed).Seconds()
		f.DocumentsNow = quotient(float64(f.Stats.Documents-then.Stats.Documents), seconds)
		f.TokensNow = quotient(float64(f.Tokens-then.Tokens), seconds)
	}
	r.past = append(r.past, *f)
}

// line is the figures as one line of text.
func (f demoFigures) line() string {
	return fmt.Sprintf("%6.1f s  %s: %s documents, %s steps read, %s tokens/s, padding %.2f %%, truncated %.1f %%, pool %s, window %s, lag %s",
		f.Elapsed.Seconds(), f.Phase, group(f.Stats.Documents), group(int64(f.Read)), short(f.TokensNow), f.padding(), f.truncated(),
		group(int64(f.Stats.PoolPieces)), group(int64(f.Stats.WindowRows)), plural(int(f.lag()), "step"))
}

// group writes a count with separators: 12,345.
func group(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a number in three digits or so: 950, 12.3k, 4.56M.
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	switch {
	case unit == "" || v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, unit)
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, unit)
	}
	return fmt.Sprintf("%.2f%s", v, unit)
}
