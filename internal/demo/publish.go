package demo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"loaderd/internal/publishing"
	"loaderd/internal/stats"
	"loaderd/stream"
)

// sourceName is the source to which the demo publishes.
const sourceName = "demo"

// batchBytes is the size of a commit. It is small so that the planner receives the first documents early, and few
// documents are buffered in this process.
const batchBytes = 2 << 20

// fullStreamTimeout is the time for which the publisher waits for space. No job commits steps in a demo, so a full
// stream stays full. It does not limit the wait for a daemon that restarts.
const fullStreamTimeout = 10 * time.Second

// publish publishes the inputs' documents like loaderd publish, over a separate connection, until all are committed.
func (j *Job) publish(ctx context.Context, url string) error {
	c := stream.Default()
	c.URL, c.Dir, c.Name, c.Subject = url, j.Config.Stream.Dir, j.Config.Stream.Name, j.Config.Stream.Subject
	store, err := stream.OpenProducer(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var full *time.Timer // used only by the publisher's goroutine
	p, err := publishing.Open(ctx, store, j.documents.Inputs, publishing.Options{
		Source: sourceName, BatchBytes: batchBytes, Unrecorded: true, Limit: j.Limit, SkipTooLarge: true, SkipInvalid: true,
		OnWait: func(reason string) {
			if full != nil {
				full.Stop()
			}
			if reason != "" {
				full = time.AfterFunc(fullStreamTimeout, func() {
					if !j.daemonMu.TryRLock() { // the daemon restarts
						return
					}
					defer j.daemonMu.RUnlock()
					cancel(fmt.Errorf("publish documents: nothing was stored for %v: %s: free disk space, or choose another disk "+
						"with TMPDIR or --keep",
						fullStreamTimeout, reason))
				})
			}
		},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	j.mu.Lock()
	j.publishing = p
	j.mu.Unlock()
	_, err = p.Run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if now := p.Progress(); now.Offered == 0 {
		return fmt.Errorf("find documents: %s holds no text (%d files left out: empty, binary, hidden or unreadable): "+
			"name files or folders with text",
			j.documents.Description, now.LeftOut)
	}
	j.allPublished.Store(true)
	return nil
}

// progress returns the progress of publishing.
func (j *Job) progress() publishing.Progress {
	j.mu.Lock()
	p := j.publishing
	j.mu.Unlock()
	if p == nil {
		return publishing.Progress{}
	}
	return p.Progress()
}

// publishedShare returns the share of the documents that were passed to the publisher, 0 to 1.
func (j *Job) publishedShare(now publishing.Progress) float64 {
	if j.allPublished.Load() {
		return 1
	}
	return min(1, max(stats.Share(now.Read, now.Total), stats.Share(now.Offered, j.Limit)))
}
