package screen

import (
	"fmt"

	"loaderd/internal/demo"
	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/internal/tui"
)

// newContent returns the content of the live view.
func newContent(f demo.Snapshot) tui.Content {
	p := tui.Content{Title: "loaderd demo", State: fmt.Sprintf("%s  %.1f s", f.Phase, f.Elapsed.Seconds()),
		Lines: []string{f.Input, f.Settings}, Cells: cells(f), Bars: bars(f),
		Note: f.Note, Keys: "q stops"}
	if f.Phase == demo.Comparing {
		p.Bars = []tui.Bar{bar("compared", int64(f.StepsCompared), int64(f.StepsRead), "steps")}
	}
	if len(f.Events) > 0 {
		p.Tables = [][]string{{"EVENTS"}}
		for _, e := range f.Events {
			p.Tables[0] = append(p.Tables[0], fmt.Sprintf("%5.1f s  %s", e.Elapsed.Seconds(), e.Text))
		}
	}
	if f.Page != "" {
		p.Lines = append([]string{"live page: " + f.Page}, p.Lines...)
	}
	return p
}

// cells returns the values, grouped in lines of three if the width permits.
func cells(f demo.Snapshot) []tui.Cell {
	return []tui.Cell{
		{Label: "tokens/s", Value: humanize.Short(f.RecentRates.Tokens)},
		{Label: "tokens/s, mean", Value: humanize.Short(f.MeanRates.Tokens)},
		{Label: "tokens", Value: humanize.Short(float64(f.Tokens))},
		{Label: "documents/s", Value: humanize.Short(f.RecentRates.Documents)},
		{Label: "documents/s, mean", Value: humanize.Short(f.MeanRates.Documents)},
		{Label: "documents", Value: humanize.Count(f.Stats.Documents)},
		{Label: "steps read", Value: humanize.Count(f.StepsRead)},
		{Label: "padding", Value: fmt.Sprintf("%.2f %%", 100*stats.PaddingShare(f.Stats))},
		{Label: "truncated", Value: fmt.Sprintf("%.1f %%", 100*stats.TruncatedShare(f.Stats))},
	}
}

func bars(f demo.Snapshot) []tui.Bar {
	s := f.Stats
	cache := tui.Bar{Label: "cache", Fraction: stats.Share(s.CacheBytes, f.CacheBytes),
		LongText: humanize.Bytes(s.CacheBytes), ShortText: humanize.Bytes(s.CacheBytes)}
	if s.CacheHits+s.CacheMisses > 0 {
		cache.LongText += fmt.Sprintf(", %.1f %% hits", 100*stats.CacheHitShare(s))
	}
	return []tui.Bar{
		{Label: "published", Fraction: f.Published, LongText: humanize.Count(f.Offered) + " documents",
			ShortText: humanize.Short(float64(f.Offered))},
		bar("stream", int64(s.Cursor), int64(s.Source.Last), "documents"),
		bar("pool", int64(s.PoolPieces), int64(s.Capacity.Pool), "pieces"),
		bar("shuffle", int64(s.WindowRows), int64(f.Window), "rows"),
		bar("queue", int64(s.QueueRows), int64(s.Capacity.Rows), "rows"),
		bar("reader lag", f.Lag(), int64(f.Ahead), "steps"),
		cache,
	}
}

func bar(label string, part, whole int64, thing string) tui.Bar {
	return tui.Bar{Label: label, Fraction: stats.Share(part, whole),
		LongText:  fmt.Sprintf("%s of %s %s", humanize.Count(part), humanize.Count(whole), thing),
		ShortText: humanize.Short(float64(part)) + "/" + humanize.Short(float64(whole))}
}
