package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
)

// Set hands documents from the streams of a run to the leader's loop, which must not block in one while a request waits. Each stream is read by
// itself: one that the planner asks seldom holds a chunk ready, and keeps no other waiting.
type Set struct {
	run     string // its name
	streams *planview.Streams
	// onOpenAttempt is called before each attempt to open a reader, with the error of the attempt before.
	onOpenAttempt func(source string, err error)
	// onOpened is called with each reader before anything is read.
	onOpened func(source int, r document.Source)
	group    *errgroup.Group
	ctx      context.Context // of the group
	Of       map[int]*Feed   // by source
}

// Feed hands over the documents of one source.
type Feed struct {
	source int
	epoch  uint64
	split  func(d document.Document) bool // whether the source takes a document
	Reader document.Source
	stop   context.CancelFunc
	Chunks chan []document.Document
	done   chan struct{}       // gets a value when the loop has planned a chunk; has room for it
	Held   []document.Document // of the last chunk, not planned yet; the loop's
}

// None is the feed where no document is wanted.
var None = &Feed{}

func New(ctx context.Context, run string, s *planview.Streams, g *errgroup.Group, onOpenAttempt func(string, error),
	onOpened func(int, document.Source)) *Set {
	return &Set{run: run, streams: s, onOpenAttempt: onOpenAttempt, onOpened: onOpened, group: g, ctx: ctx, Of: map[int]*Feed{}}
}

// Next returns the feed of the document that the planner wants; nil when it wants none.
func (f *Set) Next(p *planner.Planner) (*Feed, error) {
	source, _, ok := p.Wants()
	if !ok {
		return nil, nil
	}
	return f.Open(p, source)
}

// Open returns the feed of a source that goes on where the planner is with it.
func (f *Set) Open(p *planner.Planner, source int) (*Feed, error) {
	epoch := p.Mixture().Place(source).Epoch
	x := f.Of[source]
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
	f.Of[source] = x
	return x, nil
}

// read begins to read a source.
func (f *Set) read(p *planner.Planner, source int, epoch uint64) (*Feed, error) {
	x := &Feed{source: source, epoch: epoch, Chunks: make(chan []document.Document), done: make(chan struct{}, 1)}
	f.streams.Learn(p.Infos()) // one may just have been added
	info := p.Infos()[source]
	f.onOpenAttempt(info.Name, nil)
	stream, err := f.streams.Named(f.ctx, info.Name, info.Config)
	if err != nil {
		return nil, err
	}
	docs, m := stream.Documents, p.Mixture()
	c, walk, taken := m.Config(source), m.Walk(source, epoch), m.Place(source).Taken
	x.split = func(d document.Document) bool { return c.Split.Takes(d.ID, d.Sequence) }
	if walk.Drawn || epoch > 0 {
		x.Reader = NewEpochReader(docs, walk, taken, readersTokens/int64(m.Len()))
	} else {
		failed := func(err error) { f.onOpenAttempt(info.Name, err) }
		if x.Reader, err = document.OpenSource(f.ctx, docs, walk.First+taken, 0, failed); err != nil {
			return nil, fmt.Errorf("read the documents of source %s: %w", info.Name, err)
		}
		if last := x.Reader.Status().Last; last+1 < walk.First+taken { // documents to come would take the places of others
			return nil, errors.Join(Lost(f.run, info.Name, walk.First+taken-1, last), x.Reader.Close())
		}
	}
	f.onOpened(source, x.Reader)
	ctx, stop := context.WithCancel(f.ctx)
	x.stop = stop
	f.group.Go(func() error {
		err := x.pump(ctx)
		err = errors.Join(err, x.Reader.Close())
		if ctx.Err() != nil && f.ctx.Err() == nil { // another epoch is read
			return nil
		}
		return err
	})
	return x, nil
}

// pump hands over one chunk after the other until ctx is done. While the loop plans one, pump does not call Next: documents that the loop
// holds are not delivered yet, for the source's bound of bytes and for stall causes.
func (f *Feed) pump(ctx context.Context) error {
	for {
		docs, err := f.Reader.Next(ctx)
		if err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		select {
		case f.Chunks <- docs:
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

// UnlessHeld brings the next chunk where none is held.
func (f *Feed) UnlessHeld() <-chan []document.Document {
	if len(f.Held) > 0 {
		return nil
	}
	return f.Chunks
}

// Take returns the next document that is held.
func (f *Feed) Take() document.Document {
	d := f.Held[0]
	d.Source = f.source
	if d.Skip == "" && len(d.Parts) == 0 && !f.split(d) {
		d.Skip = plan.SkipSplit
	}
	return d
}

// Planned says that the document which was taken last is planned. Behind the last one of a chunk it sends a value to done.
func (f *Feed) Planned() {
	if f.Held = f.Held[1:]; len(f.Held) == 0 {
		f.Held = nil // lets the contents of the chunk go
		f.done <- struct{}{}
	}
}

// Always can be received from at any time.
var Always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// LostAfter is how long a source may have no further document although the plan was made of more.
const LostAfter = 5 * time.Second

// Lost is the error for a document that the plan was made of, and that its stream does not hold.
func Lost(run, source string, wanted, last uint64) error {
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("the plan of run %s was made of document %d of source %s, and its stream ends at %d", run, wanted, source, last),
		Do:      "restore the stream that the run began with, or start a new run", Facts: map[string]string{"source": source}}
}
