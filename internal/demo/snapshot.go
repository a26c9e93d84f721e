package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/loader"
	"loaderd/loader/runconfig"
)

// Snapshot are the values of the live view at one moment.
type Snapshot struct {
	Input    string // description of the documents
	Page     string // link that opens the live page once; empty before it exists
	Settings string
	Phase    string
	Elapsed  time.Duration
	World    int

	Published     float64 // published share of the documents, 0 to 1
	Offered       int64   // documents handed to the publisher
	Stats         loader.Stats
	StepsRead     uint64 // steps that all readers have finished
	Tokens        int64  // received by readers
	StepsCompared uint64 // that one reader has read again

	RecentRates, MeanRates stats.Rates // of packed documents and read tokens: recent, and since the start

	Window, Ahead int // limits of the levels
	CacheBytes    int64
	Events        []Event // oldest first
	Note          string  // message that needs attention
}

// Comparing is the phase in which one reader reads all steps again.
const Comparing = "comparing with a reading by one rank"

// Lag returns the number of planned steps that the readers have not finished.
func (f Snapshot) Lag() int64 { return int64(f.Stats.Planned) - int64(f.StepsRead) }

// counts returns the counters for the rates.
func (f Snapshot) counts() stats.Counts {
	return stats.Counts{Documents: f.Stats.Documents, Tokens: f.Tokens}
}

// Snapshot returns the present values of the job. It does not set Now, which a Rates computes from successive Figures.
func (j *Job) Snapshot() Snapshot {
	c := j.Config
	f := Snapshot{Settings: describeSettings(c.Plan, c.Tokenizer.Name, j.World), Phase: "starting",
		Elapsed: time.Since(j.StartTime),
		World:   j.World,
		Window:  c.Plan.Shuffle.Window, Ahead: c.Serve.Ahead, CacheBytes: c.Serve.CacheBytes,
		Note: j.LogBuffer.lastLine()}
	progress := j.progress()
	j.mu.Lock()
	defer j.mu.Unlock()
	f.Input, f.Events = j.documents.Description, slices.Clone(j.events)
	if j.elapsed > 0 {
		f.Elapsed = j.elapsed
	}
	if j.daemon == nil {
		return f
	}
	f.Page, f.Stats = j.freshLink(), j.stats
	f.Published, f.Offered = j.publishedShare(progress), progress.Offered
	f.StepsRead, f.Tokens = j.record.readSteps()
	f.MeanRates = stats.RatesBetween(stats.Counts{}, f.counts(), cmp.Or(j.readTime, f.Elapsed))
	f.StepsCompared = j.stepsCompared.Load()
	switch {
	case j.complete:
		f.Phase = "complete"
	case j.verifying:
		f.Phase = Comparing
	case f.Stats.Ended:
		f.Phase = "last steps"
	case j.allPublished.Load():
		f.Phase = "all published"
	case f.StepsRead > 0:
		f.Phase = "streaming"
	default:
		f.Phase = "filling pool and window"
	}
	return f
}

func describeSettings(p runconfig.Config, tokenizer string, world int) string {
	return fmt.Sprintf("%s, %s, rows of %s tokens, %s rows a step, %s", tokenizer, p.Packing.Method,
		humanize.Range(p.Packing.Buckets),
		humanize.Range(p.Steps.RowsPerBucket(p.Packing.Buckets)), humanize.Things(world, "reader"))
}

// RateWindow computes recent rates. Fill must be called with all Figures in order.
type RateWindow struct{ window stats.RateWindow }

// SetRecentRates sets f.Now.
func (r *RateWindow) SetRecentRates(f *Snapshot) { f.RecentRates = r.window.Add(f.Elapsed, f.counts()) }
