package demo

import (
	"fmt"
	"time"

	"loaderd/internal/quantity"
	"loaderd/internal/stats"
	"loaderd/loader"
	"loaderd/loader/runconfig"
)

// Figures are what the live view shows of one moment.
type Figures struct {
	From     string // what the documents are
	Page     string // link to the live page, which opens it once; empty before there is one
	Settings string
	Phase    string
	Elapsed  time.Duration
	World    int

	Published float64 // part of the documents that has been published, 0 to 1
	Offered   int64   // documents handed to the publisher
	Stats     loader.Stats
	Read      uint64 // steps that all readers have finished
	Tokens    int64  // that readers got

	Now, Mean stats.Rates // of documents that are packed and tokens that are read: lately, and since the start

	Window, Ahead int // bounds of the levels
	CacheBytes    int64
	Note          string // what needs attention
}

// Lag is how many planned steps the readers have not finished.
func (f Figures) Lag() int64 { return int64(f.Stats.Planned) - int64(f.Read) }

// counts are what the rates are of.
func (f Figures) counts() stats.Counts {
	return stats.Counts{Documents: f.Stats.Documents, Tokens: f.Tokens}
}

// Figures looks at the job. It leaves Now to a Rates, which has the figures before.
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
		quantity.Range(p.Packing.Buckets),
		quantity.Range(p.Steps.PerBucket(p.Packing.Buckets)), quantity.Things(world, "reader"))
}

// Rates fills in the rates of the last moments. It is given all figures, one after the other.
type Rates struct{ window stats.Window }

// Fill sets f.Now.
func (r *Rates) Fill(f *Figures) { f.Now = r.window.Add(f.Elapsed, f.counts()) }
