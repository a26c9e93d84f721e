package loader

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
)

// feeds hand documents from the streams of a run to the leader's loop, which must not block in one while a request waits. Each stream is read by
// itself: one that the planner asks seldom holds a chunk ready, and keeps no other waiting.
type feeds struct {
	run     string // its name
	streams *streams
	// onOpenAttempt is called before each attempt to open a reader, with the error of the attempt before.
	onOpenAttempt func(source string, err error)
	// onOpened is called with each reader before anything is read.
	onOpened func(source int, r document.Source)
	group    *errgroup.Group
	ctx      context.Context // of the group
	of       map[int]*feed   // by source
}

// feed hands over the documents of one source.
type feed struct {
	source int
	epoch  uint64
	split  func(d document.Document) bool // whether the source takes a document
	reader document.Source
	stop   context.CancelFunc
	chunks chan []document.Document
	done   chan struct{}       // gets a value when the loop has planned a chunk; has room for it
	held   []document.Document // of the last chunk, not planned yet; the loop's
}

// nothing is the feed where no document is wanted.
var nothing = &feed{}

func newFeeds(ctx context.Context, run string, s *streams, g *errgroup.Group, onOpenAttempt func(string, error),
	onOpened func(int, document.Source)) *feeds {
	return &feeds{run: run, streams: s, onOpenAttempt: onOpenAttempt, onOpened: onOpened, group: g, ctx: ctx, of: map[int]*feed{}}
}

// next returns the feed of the document that the planner wants; nil when it wants none.
func (f *feeds) next(p *planner.Planner) (*feed, error) {
	source, _, ok := p.Wants()
	if !ok {
		return nil, nil
	}
	return f.open(p, source)
}

// open returns the feed of a source that goes on where the planner is with it.
func (f *feeds) open(p *planner.Planner, source int) (*feed, error) {
	epoch := p.Mixture().Place(source).Epoch
	x := f.of[source]
	if x != nil && x.epoch == epoch {
		return x, nil
	}
	if x != nil {
		x.stop()
	}
	x, err := f.read(p, source, epoch)
	if err != nil {
		return nil, err
	}
	f.of[source] = x
	return x, nil
}

// read begins to read a source.
func (f *feeds) read(p *planner.Planner, source int, epoch uint64) (*feed, error) {
	x := &feed{source: source, epoch: epoch, chunks: make(chan []document.Document), done: make(chan struct{}, 1)}
	f.streams.learn(p.Infos()) // one may just have been added
	info := p.Infos()[source]
	f.onOpenAttempt(info.Name, nil)
	stream, err := f.streams.named(f.ctx, info.Name, info.Config)
	if err != nil {
		return nil, err
	}
	docs, m := stream.Documents, p.Mixture()
	c, walk, taken := m.Config(source), m.Walk(source, epoch), m.Place(source).Taken
	x.split = func(d document.Document) bool { return c.Split.Takes(d.ID, d.Sequence) }
	if walk.Drawn || epoch > 0 {
		x.reader = newWalker(docs, walk, taken, walkersTokens/int64(m.Len()))
	} else {
		failed := func(err error) { f.onOpenAttempt(info.Name, err) }
		if x.reader, err = document.OpenSource(f.ctx, docs, walk.First+taken, 0, failed); err != nil {
			return nil, fmt.Errorf("read the documents of source %s: %w", info.Name, err)
		}
		if last := x.reader.Status().Last; last+1 < walk.First+taken { // documents to come would take the places of others
			return nil, errors.Join(lostOfSource(f.run, info.Name, walk.First+taken-1, last), x.reader.Close())
		}
	}
	f.onOpened(source, x.reader)
	ctx, stop := context.WithCancel(f.ctx)
	x.stop = stop
	f.group.Go(func() error {
		err := x.pump(ctx)
		err = errors.Join(err, x.reader.Close())
		if ctx.Err() != nil && f.ctx.Err() == nil { // another epoch is read
			return nil
		}
		return err
	})
	return x, nil
}

// pump hands over one chunk after the other until ctx is done. While the loop plans one, pump does not call Next: documents that the loop
// holds are not delivered yet, for the source's bound of bytes and for stall causes.
func (f *feed) pump(ctx context.Context) error {
	for {
		docs, err := f.reader.Next(ctx)
		if err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		select {
		case f.chunks <- docs:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unlessHeld brings the next chunk where none is held.
func (f *feed) unlessHeld() <-chan []document.Document {
	if len(f.held) > 0 {
		return nil
	}
	return f.chunks
}

// take returns the next document that is held.
func (f *feed) take() document.Document {
	d := f.held[0]
	d.Source = f.source
	if d.Skip == "" && len(d.Parts) == 0 && !f.split(d) {
		d.Skip = plan.SkipSplit
	}
	return d
}

// planned says that the document which was taken last is planned. Behind the last one of a chunk it sends a value to done.
func (f *feed) planned() {
	if f.held = f.held[1:]; len(f.held) == 0 {
		f.held = nil // lets the contents of the chunk go
		f.done <- struct{}{}
	}
}

// always can be received from at any time.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
