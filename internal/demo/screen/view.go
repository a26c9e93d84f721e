package screen

import (
	"fmt"

	"loaderd/internal/demo"
	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/internal/tui"
)

// picture returns the content of the live view.
func picture(f demo.Figures) tui.Picture {
	p := tui.Picture{Title: "loaderd demo", State: fmt.Sprintf("%s  %.1f s", f.Phase, f.Elapsed.Seconds()),
		Lines: []string{f.From, f.Settings}, Cells: cells(f), Levels: levels(f),
		Note: f.Note, Keys: "q stops"}
	if f.Page != "" {
		p.Lines = append([]string{"live page: " + f.Page}, p.Lines...)
	}
	return p
}

// cells returns the values, grouped in lines of three if the width permits.
func cells(f demo.Figures) []tui.Cell {
	return []tui.Cell{
		{Label: "tokens/s", Value: humanize.Short(f.Now.Tokens)},
		{Label: "tokens/s, mean", Value: humanize.Short(f.Mean.Tokens)},
		{Label: "tokens", Value: humanize.Short(float64(f.Tokens))},
		{Label: "documents/s", Value: humanize.Short(f.Now.Documents)},
		{Label: "documents/s, mean", Value: humanize.Short(f.Mean.Documents)},
		{Label: "documents", Value: humanize.Count(f.Stats.Documents)},
		{Label: "steps read", Value: humanize.Count(f.Read)},
		{Label: "padding", Value: fmt.Sprintf("%.2f %%", 100*stats.Padding(f.Stats))},
		{Label: "truncated", Value: fmt.Sprintf("%.1f %%", 100*stats.Truncated(f.Stats))},
	}
}

func levels(f demo.Figures) []tui.Level {
	s := f.Stats
	of := func(label string, a, b int64, thing string) tui.Level {
		return tui.Level{Label: label, Part: stats.Share(a, b), Long: fmt.Sprintf("%s of %s %s", humanize.Count(a),
			humanize.Count(b), thing), Brief: humanize.Short(float64(a)) + "/" +
			humanize.Short(float64(b))}
	}
	cache := tui.Level{Label: "cache", Part: stats.Share(s.CacheBytes, f.CacheBytes),
		Long: humanize.Bytes(s.CacheBytes), Brief: humanize.Bytes(s.CacheBytes)}
	if s.CacheHits+s.CacheMisses > 0 {
		cache.Long += fmt.Sprintf(", %.1f %% hits", 100*stats.CacheHits(s))
	}
	return []tui.Level{
		{Label: "published", Part: f.Published, Long: humanize.Count(f.Offered) + " documents",
			Brief: humanize.Short(float64(f.Offered))},
		of("stream", int64(s.Cursor), int64(s.Source.Last), "documents"),
		of("pool", int64(s.PoolPieces), int64(s.Capacity.Pool), "pieces"),
		of("shuffle", int64(s.WindowRows), int64(f.Window), "rows"),
		of("queue", int64(s.QueueRows), int64(s.Capacity.Rows), "rows"),
		of("reader lag", f.Lag(), int64(f.Ahead), "steps"),
		cache,
	}
}
