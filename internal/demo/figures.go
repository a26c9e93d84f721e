package demo

import (
	"fmt"
	"time"

	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/loader"
	"loaderd/loader/runconfig"
)

// Figures are the values of the live view at one moment.
type Figures struct {
	From     string // description of the documents
	Page     string // link that opens the live page once; empty before it exists
	Settings string
	Phase    string
	Elapsed  time.Duration
	World    int

	Published float64 // published share of the documents, 0 to 1
	Offered   int64   // documents handed to the publisher
	Stats     loader.Stats
	Read      uint64 // steps that all readers have finished
	Tokens    int64  // received by readers

	Now, Mean stats.Rates // of packed documents and read tokens: recent, and since the start

	Window, Ahead int // limits of the levels
	CacheBytes    int64
	Note          string // message that needs attention
}

// Lag returns the number of planned steps that the readers have not finished.
func (f Figures) Lag() int64 { return int64(f.Stats.Planned) - int64(f.Read) }

// counts returns the counters for the rates.
func (f Figures) counts() stats.Counts {
	return stats.Counts{Documents: f.Stats.Documents, Tokens: f.Tokens}
}

// Figures returns the present values of the job. It does not set Now, which a Rates computes from successive Figures.
func (j *Job) Figures() Figures {
	c := j.Config
	f := Figures{Settings: settings(c.Plan, c.Tokenizer.Name, j.World), Phase: "starting", Elapsed: time.Since(j.Began),
		World:  j.World,
		Window: c.Plan.Shuffle.Window, Ahead: c.Serve.Ahead, CacheBytes: c.Serve.CacheBytes,
		Note: j.Notes.last()}
	progress := j.progress()
	j.mu.Lock()
	defer j.mu.Unlock()
	f.From = j.documents.From
	if j.elapsed > 0 {
		f.Elapsed = j.elapsed
	}
	if j.daemon == nil {
		return f
	}
	f.Page, f.Stats = j.link(), j.daemon.Run().Stats()
	f.Published, f.Offered = j.publishedShare(progress), progress.Offered
	f.Read, f.Tokens = j.ranks.steps.Load(), j.ranks.tokens.Load()
	f.Mean = stats.Between(stats.Counts{}, f.counts(), f.Elapsed)
	switch {
	case j.complete:
		f.Phase = "complete"
	case f.Stats.Ended:
		f.Phase = "last steps"
	case j.published.Load():
		f.Phase = "all published"
	case f.Read > 0:
		f.Phase = "streaming"
	default:
		f.Phase = "filling pool and window"
	}
	return f
}

func settings(p runconfig.Config, tokenizer string, world int) string {
	return fmt.Sprintf("%s, %s, rows of %s tokens, %s rows a step, %s", tokenizer, p.Packing.Method,
		humanize.Range(p.Packing.Buckets),
		humanize.Range(p.Steps.PerBucket(p.Packing.Buckets)), humanize.Things(world, "reader"))
}

// Rates computes recent rates. Fill must be called with all Figures in order.
type Rates struct{ window stats.Window }

// Fill sets f.Now.
func (r *Rates) Fill(f *Figures) { f.Now = r.window.Add(f.Elapsed, f.counts()) }
