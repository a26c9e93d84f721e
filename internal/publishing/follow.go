package publishing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/follow"
	"loaderd/internal/corpus/record"
	"loaderd/stream/publish"
)

// FollowOptions configures which files are published as they appear.
type FollowOptions struct {
	Files    *follow.Follower
	Interval time.Duration  // interval of searches
	StopFile string         // a file whose existence ends Follow once all present files are published; empty: none
	Corpus   corpus.Options // how files are read
	// Warn receives messages about files that are left out because they have changed or vanished. It must not block.
	Warn func(what string)
}

// maxQueueFiles bounds the files in one recorded list, so that the list fits into a message.
const maxQueueFiles = 1000

// reasonChanged is the reason for files that have changed since they were published, in addition to those of package
// corpus.
const reasonChanged record.Reason = "changed"

// Follow publishes files when they are complete, until ctx ends or the file Until exists. Files of one search are
// published in the order of their paths, after those of earlier searches. That order is recorded before the first
// of them is published, so that after a kill the next Follow publishes the rest of them first. It returns the
// result of Run, and the end of ctx is not an error. A file that cannot be read causes a warning immediately. Open
// must have had no inputs.
func (p *Session) Follow(ctx context.Context, f FollowOptions) (Summary, error) {
	return p.run(ctx, func(ctx context.Context) error {
		err := p.followFiles(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

func (p *Session) followFiles(ctx context.Context, f FollowOptions) error {
	queue, err := p.publisher.Queue(ctx, f.Files.Patterns())
	if err != nil {
		return err
	}
	for _, name := range queue.Inputs() {
		if err := p.publishQueuedFile(ctx, f, name); err != nil {
			return err
		}
	}
	return p.publishNewFiles(ctx, f, queue)
}

// publishNewFiles searches for files and publishes them.
func (p *Session) publishNewFiles(ctx context.Context, f FollowOptions, queue *publish.Queue) error {
	tick := time.NewTicker(f.Interval)
	defer tick.Stop()
	for {
		// checked first: the search below finds all files that existed before it
		last := f.StopFile != "" && fileExists(f.StopFile)
		whole, unsettled, err := f.Files.Poll(time.Now())
		if err != nil {
			f.Warn(err.Error())
			last = false
		}
		for some := range slices.Chunk(whole, maxQueueFiles) {
			if err := p.publishFiles(ctx, f, queue, some); err != nil {
				return err
			}
		}
		if last && unsettled == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// publishFiles publishes those of the given complete files that are not published yet.
func (p *Session) publishFiles(ctx context.Context, f FollowOptions, queue *publish.Queue, names []string) error {
	if _, err := p.publisher.Flush(ctx); err != nil { // the states that are read below must be written by then
		return err
	}
	var fresh []string
	for _, name := range names {
		in, err := f.openInput(ctx, name)
		if err != nil {
			return err
		}
		if in == nil {
			continue
		}
		state, err := p.publisher.State(ctx, in.Name, in.Fingerprint)
		switch {
		case err != nil:
			return err
		case state == publish.Unknown, state == publish.Partial:
			fresh = append(fresh, name)
		case state == publish.Changed:
			p.summary.Skipped[string(reasonChanged)]++
			f.Warn(fmt.Sprintf("%s has changed since it was published, and nothing of it is published again: give new "+
				"documents in new files, or publish it without --follow, which adds what is new", name))
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := queue.Write(ctx, fresh); err != nil {
		return err
	}
	for _, name := range fresh {
		if err := p.publishQueuedFile(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

// publishQueuedFile publishes a recorded file, or the rest of it.
func (p *Session) publishQueuedFile(ctx context.Context, f FollowOptions, name string) error {
	in, err := f.openInput(ctx, name)
	if in == nil || err != nil {
		return err
	}
	state, err := p.publisher.State(ctx, in.Name, in.Fingerprint)
	if err != nil || state == publish.Complete || state == publish.Changed { // the next search reports a changed file
		return err
	}
	p.summary.Inputs++
	p.currentInput.Store(in)
	err = p.publishInput(ctx, in)
	p.finishedBytes.Add(in.BytesRead())
	p.currentInput.Store(nil)
	if errors.Is(err, fs.ErrNotExist) {
		f.Warn(name + " vanished before it was read")
		return nil
	}
	if p.recordInputError(err) {
		f.Warn("not read to its end: " + err.Error())
		return nil
	}
	if err == nil {
		p.summary.InputsComplete++
	}
	return err
}

// openInput returns nil for a file that no longer exists.
func (f FollowOptions) openInput(ctx context.Context, name string) (*corpus.Input, error) {
	inputs, err := corpus.Open(ctx, []string{name}, nil, f.Corpus)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Warn(name + " vanished before it was read")
		return nil, nil
	case err != nil:
		return nil, err
	case len(inputs) != 1:
		return nil, fmt.Errorf("%s matches several files: publish its folder without --follow", name)
	}
	return inputs[0], nil
}
