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

// progress logs how a run gets on, every so often until ctx is done: what has been planned since the line before, and
// where readers are. While nothing changes it says so once. An interval of 0 logs nothing.
func progress(ctx context.Context, log *slog.Logger, every time.Duration, snapshot func() loader.Stats) {
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
		if !moved(last, s) {
			if !idle && !s.Ended {
				log.Info("no progress: no document, step or reader has moved since the last line", event.DaemonIdle,
					"steps", s.Planned, "documents", s.Documents, "readers", readersAt(s.Readers))
			}
			idle = true
			last, at = s, now
			continue
		}
		idle = false
		rates := stats.Between(stats.Planned(last), stats.Planned(s), now.Sub(at))
		log.Info("progress", event.DaemonProgress, "steps", s.Planned, "documents", s.Documents, "tokens", s.Tokens,
			"tokens_per_second",
			int64(rates.Tokens), "cursor", s.Cursor,
			"behind", s.Source.Last-min(s.Source.Last, s.Cursor), "floor", s.Floor, "pool", s.PoolPieces, "rows_waiting",
			s.RowsThere,
			"readers", readersAt(s.Readers))
		last, at = s, now
	}
}

// moved says whether anything of a run has changed that a line of progress shows.
func moved(a, b loader.Stats) bool {
	return a.Planned != b.Planned || a.Cursor != b.Cursor || a.Floor != b.Floor || a.Source.Last != b.Source.Last ||
		a.Committed != b.Committed ||
		a.Ended != b.Ended || readersAt(a.Readers) != readersAt(b.Readers)
}

// readersAt shows where the readers of each world are: 8 of 8 at steps 120 to 122, the last is rank 3. They come sorted
// by world.
func readersAt(readers []state.ReaderStat) string {
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
