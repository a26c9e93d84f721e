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

// Following says which files are published as they appear.
type Following struct {
	Files  *follow.Follower
	Every  time.Duration  // how often is looked
	Until  string         // a file that, once it is there, ends it when all that is there is published; empty: none
	Corpus corpus.Options // how files are read
	// Warn is told of files that are left out: they have changed, or vanished. It must not block.
	Warn func(what string)
}

// queueMost bounds the files that are written down at a time, so that the list fits into a message.
const queueMost = 1000

// changedFile is the reason of files that have changed since they were published, beside those of package corpus.
const changedFile record.Reason = "changed"

// Follow publishes files as they become whole, until ctx ends or the file Until is there. Files that one look finds
// come in the order of their paths, and behind those that earlier ones found. That order is written down before the
// first of them is published: after a kill the next Follow publishes the rest of them first. It returns what Run does;
// the end of ctx is no error. A file that cannot be read is warned of at once. Open is to have had no inputs.
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

// look finds files and publishes them.
func (p *Publishing) look(ctx context.Context, f Following, queue *publish.Queue) error {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		last := f.Until != "" && exists(f.Until) // asked first: what was there before it is found by the look below
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

// some publishes those of some whole files that were not.
func (p *Publishing) some(ctx context.Context, f Following, queue *publish.Queue, names []string) error {
	if _, err := p.publisher.Flush(ctx); err != nil { // what is asked below is to be written by then
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

// queued publishes a file that is written down, or the rest of it.
func (p *Publishing) queued(ctx context.Context, f Following, name string) error {
	in, err := f.open(ctx, name)
	if in == nil || err != nil {
		return err
	}
	state, err := p.publisher.State(ctx, in.Name, in.Fingerprint)
	if err != nil || state == publish.Complete || state == publish.Changed { // of what has changed the next look tells
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

// open is nil for a file that is no longer there.
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
