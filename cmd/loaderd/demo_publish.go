package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"loaderd/internal/corpus"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// goTree finds the sources of a Go installation: real text that is on every machine that builds this program.
func goTree(ctx context.Context) (string, error) {
	tree, err := corpus.GoSource(ctx)
	if err != nil {
		return "", fmt.Errorf("find documents: %w: name files or folders with text, as in loaderd demo ~/src", err)
	}
	return tree, nil
}

// demoSource is the source that the demo publishes to.
const demoSource = "demo"

// fullPatience is how long the publisher waits for room. Nobody commits steps in a demo, so a full stream stays full.
const fullPatience = 10 * time.Second

// demoPublisher publishes the inputs' documents as loaderd publish does, over a connection of its own.
type demoPublisher struct {
	inputs []*corpus.Input
	limit  int64

	documents atomic.Int64 // handed to the publisher
	textBytes atomic.Int64
	left      atomic.Int64 // files and documents left out: empty, binary, too large
	done      atomic.Bool
}

// run publishes until the inputs or the limit are reached, and returns when all is committed.
func (d *demoPublisher) run(ctx context.Context, url string, job *demoJob) error {
	c := stream.Default()
	c.URL, c.Name, c.Subject = url, job.config.Stream.Name, job.config.Stream.Subject
	store, err := stream.Open(ctx, c, job.log)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var full *time.Timer // used by the publisher's goroutine alone
	p, err := publish.New(ctx, store, demoSource, publish.Options{OnWait: func(reason string) {
		if full != nil {
			full.Stop()
		}
		if reason != "" {
			full = time.AfterFunc(fullPatience, func() {
				cancel(fmt.Errorf("publish documents: nothing was stored for %v: %s: free disk space, or choose another disk with TMPDIR or --keep", fullPatience, reason))
			})
		}
	}})
	if err != nil {
		return err
	}
	defer p.Close()
	err = d.publish(ctx, p)
	if err == nil {
		_, err = p.Flush(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if d.documents.Load() == 0 {
		return fmt.Errorf("find documents: %s holds no text (%d files left out: empty, binary, hidden or unreadable): name files or folders with text", job.from, d.left.Load())
	}
	d.done.Store(true)
	return nil
}

func (d *demoPublisher) publish(ctx context.Context, p *publish.Publisher) error {
	for _, in := range d.inputs {
		for doc, err := range in.Documents(ctx) {
			if d.limit > 0 && d.documents.Load() >= d.limit {
				return nil
			}
			var skip *corpus.SkipError
			var large *publish.TooLargeError
			if err == nil && len(doc.Data) > 0 {
				index := int(d.documents.Load())
				err = p.Publish(ctx, stream.Message{Path: doc.Path, Label: doc.Label, ID: publish.DocumentID(demoSource, doc.Origin, index, doc.Data), Data: doc.Data})
				if err == nil {
					d.documents.Add(1)
					d.textBytes.Add(int64(len(doc.Data)))
					continue
				}
			}
			if err != nil && !errors.As(err, &skip) && !errors.As(err, &large) {
				return err
			}
			d.left.Add(1)
		}
	}
	return nil
}

// progress is how much of the documents has been handed over, 0 to 1.
func (d *demoPublisher) progress() float64 {
	if d.done.Load() {
		return 1
	}
	var read, total int64
	for _, in := range d.inputs {
		read, total = read+in.Read(), total+in.Bytes
	}
	return min(1, max(part(read, total), part(d.documents.Load(), d.limit)))
}

// part is a/b, or 0 where there is no b.
func part(a, b int64) float64 { return quotient(float64(a), float64(b)) }

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
