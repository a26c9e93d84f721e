package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"loaderd/internal/event"
	"loaderd/internal/stats"
	"loaderd/loader"
	"loaderd/loader/state"
)

// logProgress logs a run's progress at an interval until ctx is done: the planned steps since the previous line, and
// the positions of readers. If nothing has changed, it logs that once. An interval of 0 disables it.
func logProgress(ctx context.Context, log *slog.Logger, every time.Duration, snapshot func() loader.Stats) {
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, at, idle := snapshot(), time.Now(), false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s, now := snapshot(), time.Now()
		if !hasProgress(last, s) {
			if !idle && !s.Ended {
				log.Info("no progress: no document, step or reader has changed since the last record", event.DaemonIdle,
					"steps", s.Planned, "documents", s.Documents, "readers", formatReaders(s.Readers))
			}
			idle = true
			last, at = s, now
			continue
		}
		idle = false
		rates := stats.RatesBetween(stats.PlannerCounts(last), stats.PlannerCounts(s), now.Sub(at))
		log.Info("progress", event.DaemonProgress, "steps", s.Planned, "documents", s.Documents, "tokens", s.Tokens,
			"tokens_per_second",
			int64(rates.Tokens), "cursor", s.Cursor,
			"behind", s.Source.Last-min(s.Source.Last, s.Cursor), "low_watermark", s.LowWatermark, "pool", s.PoolPieces,
			"rows_waiting",
			s.RowsReady,
			"readers", formatReaders(s.Readers))
		last, at = s, now
	}
}

// hasProgress reports whether any value of a progress line has changed.
func hasProgress(a, b loader.Stats) bool {
	return a.Planned != b.Planned || a.Cursor != b.Cursor || a.LowWatermark != b.LowWatermark ||
		a.Source.Last != b.Source.Last ||
		a.Committed != b.Committed ||
		a.Ended != b.Ended || formatReaders(a.Readers) != formatReaders(b.Readers)
}

// formatReaders formats the positions of the readers of each world size, such as "8 of world 8 at step 120 (rank 3) to
// 122". The readers must be sorted by world size.
func formatReaders(readers []state.ReaderStat) string {
	text := ""
	for len(readers) > 0 {
		world, n := readers[0].World, 0
		least, most := readers[0], readers[0].Step
		for n < len(readers) && readers[n].World == world {
			r := readers[n]
			if r.Step < least.Step {
				least = r
			}
			most = max(most, r.Step)
			n++
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d of world %d at step %d", n, world, least.Step)
		if most > least.Step {
			text += fmt.Sprintf(" (rank %d) to %d", least.Rank, most)
		}
		readers = readers[n:]
	}
	if text == "" {
		return "none"
	}
	return text
}
