package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/state"
)

// progress logs one line per minute while something changes, and one more when nothing does.
func TestProgress_LogsOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
		var mu sync.Mutex // guards s and said
		var s loader.Stats
		stats := func() loader.Stats {
			mu.Lock()
			defer mu.Unlock()
			return s
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { logProgress(ctx, log, time.Minute, stats) })
		pass := func(change func()) string {
			synctest.Wait()
			mu.Lock()
			said.Reset()
			change()
			mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			return strings.TrimSpace(said.String())
		}
		for i, c := range []struct {
			change func()
			want   string
		}{
			{func() {},
				`msg="no progress: no document, step or reader has changed since the last record" event=daemon.idle steps=0 documents=0 readers=none`},
			{func() {}, ""},
			{func() {
				s.Planned, s.Documents, s.Tokens, s.Cursor, s.LowWatermark, s.PoolPieces, s.RowsReady, s.Source.Last = 12,
					1000, 600_000,
					1010, 7, 80, 1100, 1030
				s.Readers = []state.ReaderStat{{Rank: 0, World: 1, Step: 3}, {Rank: 0, World: 2, Step: 9},
					{Rank: 1, World: 2, Step: 7}}
			},
				`msg=progress event=daemon.progress steps=12 documents=1000 tokens=600000 tokens_per_second=10000 cursor=1010 behind=20 low_watermark=7 pool=80 rows_waiting=1100 ` +
					`readers="1 of world 1 at step 3, 2 of world 2 at step 7 (rank 1) to 9"`},
			{func() {
				s.Readers = s.Readers[:1]
			},
				`msg=progress event=daemon.progress steps=12 documents=1000 tokens=600000 tokens_per_second=0 cursor=1010 behind=20 low_watermark=7 pool=80 rows_waiting=1100 ` +
					`readers="1 of world 1 at step 3"`},
			{func() {},
				`msg="no progress: no document, step or reader has changed since the last record" event=daemon.idle steps=12 documents=1000 readers="1 of world 1 at step 3"`},
			{func() {}, ""},
		} {
			if got := pass(c.change); got != c.want {
				t.Errorf("minute %d:\n got %s\nwant %s", i+1, got, c.want)
			}
		}
		stop()
		running.Wait()
		logProgress(t.Context(), log, 0, nil) // disabled
	})
}
