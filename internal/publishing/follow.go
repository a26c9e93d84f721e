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

// Following configures which files are published as they appear.
type Following struct {
	Files  *follow.Follower
	Every  time.Duration  // interval of searches
	Until  string         // a file whose existence ends Follow once all present files are published; empty: none
	Corpus corpus.Options // how files are read
	// Warn receives messages about files that are left out because they have changed or vanished. It must not block.
	Warn func(what string)
}

// queueMost bounds the files in one recorded list, so that the list fits into a message.
const queueMost = 1000

// changedFile is the reason for files that have changed since they were published, in addition to those of package
// corpus.
const changedFile record.Reason = "changed"

// Follow publishes files when they are complete, until ctx ends or the file Until exists. Files of one search are
// published in the order of their paths, after those of earlier searches. That order is recorded before the first
// of them is published, so that after a kill the next Follow publishes the rest of them first. It returns the
// result of Run, and the end of ctx is not an error. A file that cannot be read causes a warning immediately. Open
// must have had no inputs.
func (p *Publishing) Follow(ctx context.Context, f Following) (Summary, error) {
	return p.run(ctx, func(ctx context.Context) error {
		err := p.follow(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

func (p *Publishing) follow(ctx context.Context, f Following) error {
	queue, err := p.publisher.Queue(ctx, f.Files.Patterns())
	if err != nil {
		return err
	}
	for _, name := range queue.Inputs() {
		if err := p.queued(ctx, f, name); err != nil {
			return err
		}
	}
	return p.look(ctx, f, queue)
}

// look searches for files and publishes them.
func (p *Publishing) look(ctx context.Context, f Following, queue *publish.Queue) error {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		last := f.Until != "" && exists(f.Until) // checked first: the search below finds all files that existed before it
		whole, unsettled, err := f.Files.Look(time.Now())
		if err != nil {
			f.Warn(err.Error())
			last = false
		}
		for some := range slices.Chunk(whole, queueMost) {
			if err := p.some(ctx, f, queue, some); err != nil {
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

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// some publishes those of the given complete files that are not published yet.
func (p *Publishing) some(ctx context.Context, f Following, queue *publish.Queue, names []string) error {
	if _, err := p.publisher.Flush(ctx); err != nil { // the states that are read below must be written by then
		return err
	}
	var fresh []string
	for _, name := range names {
		in, err := f.open(ctx, name)
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
		case state == publish.Unknown, state == publish.Begun:
			fresh = append(fresh, name)
		case state == publish.Changed:
			p.summary.Skipped[string(changedFile)]++
			f.Warn(fmt.Sprintf("%s has changed since it was published, and nothing of it is published again: give new "+
				"documents in files of their own, "+
				"or publish it without --follow, which adds what is new", name))
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := queue.Write(ctx, fresh); err != nil {
		return err
	}
	for _, name := range fresh {
		if err := p.queued(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

// queued publishes a recorded file, or the rest of it.
func (p *Publishing) queued(ctx context.Context, f Following, name string) error {
	in, err := f.open(ctx, name)
	if in == nil || err != nil {
		return err
	}
	state, err := p.publisher.State(ctx, in.Name, in.Fingerprint)
	if err != nil || state == publish.Complete || state == publish.Changed { // the next search reports a changed file
		return err
	}
	p.summary.Inputs++
	p.reading.Store(in)
	err = p.input(ctx, in)
	p.readBefore.Add(in.Read())
	p.reading.Store(nil)
	if errors.Is(err, fs.ErrNotExist) {
		f.Warn(name + " vanished before it was read")
		return nil
	}
	if p.fails(err) {
		f.Warn("not read to its end: " + err.Error())
		return nil
	}
	if err == nil {
		p.summary.InputsComplete++
	}
	return err
}

// open returns nil for a file that no longer exists.
func (f Following) open(ctx context.Context, name string) (*corpus.Input, error) {
	inputs, err := corpus.Open(ctx, []string{name}, nil, f.Corpus)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Warn(name + " vanished before it was read")
		return nil, nil
	case err != nil:
		return nil, err
	case len(inputs) != 1:
		return nil, fmt.Errorf("%s stands for several files: publish its folder without --follow", name)
	}
	return inputs[0], nil
}
