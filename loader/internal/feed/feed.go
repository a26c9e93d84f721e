package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
)

// Set holds the feeds of a run's sources. A source is opened when the planner first needs a document of it. Each
// source reads ahead into its own queue, so that a rarely used source delays no other.
//
// It is not safe for concurrent use.
type Set struct {
	ctx     context.Context // cancels the opening of streams
	run     string          // name of the run
	streams *planview.Streams
	// onOpenAttempt is called before each attempt to open a reader, with the error of the previous attempt.
	onOpenAttempt func(source string, err error)
	// onOpened is called with each reader before it reads anything.
	onOpened       func(source int, r document.Source)
	closingReaders sync.WaitGroup // readers of previous epochs
	Feeds          map[int]*Feed  // by source
}

// Feed is the queue of one source, as far as the loop has received from it.
type Feed struct {
	source    int
	epoch     uint64
	isInSplit func(d document.Document) bool // whether the document is in the source's split
	Reader    document.Source
	Pending   *document.Chunk     // received from the queue, not ready at the last Poll
	Documents []document.Document // documents of the last chunk that are not planned yet
}

// Empty is the feed used when no document is wanted.
var Empty = &Feed{}

// New returns the feeds of a run. None of them is open.
func New(ctx context.Context, run string, s *planview.Streams, onOpenAttempt func(string, error),
	onOpened func(int, document.Source)) *Set {
	return &Set{ctx: ctx, run: run, streams: s, onOpenAttempt: onOpenAttempt, onOpened: onOpened, Feeds: map[int]*Feed{}}
}

// Next returns the feed of the document that the planner needs, after a Poll; nil if it needs none.
func (f *Set) Next(p *planner.Planner) (*Feed, error) {
	source, _, ok := p.NextDocument()
	if !ok {
		return nil, nil
	}
	x, err := f.Open(p, source)
	if err != nil {
		return nil, err
	}
	return x, x.Poll()
}

// Poll polls all feeds. It returns the error of a source that has failed.
func (f *Set) Poll() error {
	for _, x := range f.Feeds {
		if err := x.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all readers.
func (f *Set) Close() error {
	var errs []error
	for _, x := range f.Feeds {
		errs = append(errs, x.Reader.Close())
	}
	f.closingReaders.Wait()
	return errors.Join(errs...)
}

// Open returns the feed of a source, starting with the next document that the planner needs.
func (f *Set) Open(p *planner.Planner, source int) (*Feed, error) {
	epoch := p.Mixture().Position(source).Epoch
	x := f.Feeds[source]
	if x != nil && x.epoch == epoch {
		return x, nil
	}
	if x != nil {
		delete(f.Feeds, source)
		before := x.Reader
		f.closingReaders.Go(func() { before.Close() }) // Close waits for pending reads
	}
	x, err := f.openFeed(p, source, epoch)
	if err != nil {
		return nil, err
	}
	f.Feeds[source] = x
	return x, nil
}

// openFeed starts to read a source.
func (f *Set) openFeed(p *planner.Planner, source int, epoch uint64) (*Feed, error) {
	x := &Feed{source: source, epoch: epoch}
	f.streams.AddSources(p.Infos()) // a source may just have been added
	info := p.Infos()[source]
	f.onOpenAttempt(info.Name, nil)
	stream, err := f.streams.SourceStream(f.ctx, info.Name, info.Config)
	if err != nil {
		return nil, err
	}
	docs, m := stream.Documents, p.Mixture()
	c, walk, taken := m.SourceConfig(source), m.EpochOrder(source, epoch), m.Position(source).Taken
	x.isInSplit = func(d document.Document) bool { return c.Split.Includes(d.ID, d.Sequence) }
	if walk.Shuffled || epoch > 0 {
		x.Reader = NewEpochReader(docs, walk, taken, maxHeldTokens/int64(m.Len()))
	} else {
		failed := func(err error) { f.onOpenAttempt(info.Name, err) }
		if x.Reader, err = document.OpenSource(f.ctx, docs, walk.First+taken, 0, failed); err != nil {
			return nil, fmt.Errorf("read the documents of source %s: %w", info.Name, err)
		}
		if last := x.Reader.Status().Last; last+1 < walk.First+taken { // later documents would get the places of lost ones
			return nil, errors.Join(NewLostError(f.run, info.Name, walk.First+taken-1, last), x.Reader.Close())
		}
	}
	f.onOpened(source, x.Reader)
	return x, nil
}

// Poll receives the next chunk if no document is held and a chunk is ready. It does not block.
func (f *Feed) Poll() error {
	if len(f.Documents) > 0 {
		return nil
	}
	if f.Pending == nil {
		select {
		case f.Pending = <-f.Reader.Chunks():
		default:
			return nil
		}
	}
	select {
	case <-f.Pending.Ready:
	default:
		return nil
	}
	if err := f.Pending.Err; err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	f.Documents, f.Pending = f.Pending.Documents, nil
	return nil
}

// Queue returns the channel from which to receive Pending, for use in a select; nil if a chunk is pending or held.
func (f *Feed) Queue() <-chan *document.Chunk {
	if f.Reader == nil || f.Pending != nil || len(f.Documents) > 0 {
		return nil
	}
	return f.Reader.Chunks()
}

// PendingReady returns a channel that is closed when the pending chunk is ready; nil if none is pending.
func (f *Feed) PendingReady() <-chan struct{} {
	if f.Pending == nil {
		return nil
	}
	return f.Pending.Ready
}

// NextDocument returns the next held document.
func (f *Feed) NextDocument() document.Document {
	d := f.Documents[0]
	d.Source = f.source
	if d.Skip == "" && len(d.Parts) == 0 && !f.isInSplit(d) {
		d.Skip = plan.SkipSplit
	}
	return d
}

// MarkPlanned marks the document that was taken last as planned. After the last document of a chunk it delivers the
// chunk.
func (f *Feed) MarkPlanned() {
	if f.Documents = f.Documents[1:]; len(f.Documents) == 0 {
		f.Documents = nil // releases the memory of the chunk
		f.Reader.ReleaseChunk()
	}
}

// ClosedChannel is a closed channel, from which a receive never blocks.
var ClosedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// LostTimeout is how long a source may have no further document although the plan was made from more.
const LostTimeout = 5 * time.Second

// NewLostError returns the error for a document that the plan was made from, and that its stream does not hold.
func NewLostError(run, source string, wanted, last uint64) error {
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("the plan of run %s was made of document %d of source %s, and its stream ends at %d", run,
			wanted, source, last),
		Advice: "restore the stream that the run began with, or start a new run", Facts: map[string]string{"source": source}}
}
