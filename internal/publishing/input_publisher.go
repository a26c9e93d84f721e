package publishing

import (
	"context"
	"errors"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/stream/publish"
)

// inputPublisher publishes the elements of an input.
type inputPublisher struct {
	*Session
	in      *corpus.Input
	to      destination
	record  *publish.Record // to, if the input has a record
	start   publish.Position
	entries int64 // of the input, up to the last one that was published or left out
	found   bool
}

// openInput opens the record of an input, which is read from its beginning. It returns nil if the input is complete
// according to its record.
func (p *Session) openInput(ctx context.Context, in *corpus.Input) (*inputPublisher, error) {
	if in.Fingerprint == "" || p.options.Unrecorded {
		to := &unrecordedInput{p: p.publisher, source: p.options.Source}
		return &inputPublisher{Session: p, in: in, to: to}, nil
	}
	stored, err := p.publisher.Resume(ctx, in.Name, in.Fingerprint)
	if err != nil {
		return nil, err
	}
	if stored.Complete() {
		in.MarkRead()
		p.summary.AlreadyStored += stored.Stored()
		p.summary.skippedInputs++
		return nil, nil
	}
	return &inputPublisher{Session: p, in: in, to: stored, record: stored}, nil
}

// continueInput makes the input continue at the position of its record, if that has one and a document precedes it.
func (i *inputPublisher) continueInput() {
	if i.record == nil {
		return
	}
	if p, ok := i.record.Position(); ok && p.Documents > p.Skipped {
		i.in.StartAt(corpus.Position{Entries: p.Entries, Offset: p.Offset, Line: p.Line})
		i.record.ContinueAt(p)
		i.start, i.found = p, true
	}
}

// isBeforeStart counts an entry that is read again, because the input cannot start at the recorded position. It returns
// false for all others.
func (i *inputPublisher) isBeforeStart(err error) bool {
	i.entries = max(i.entries, i.in.SkippedEntries())
	var skip *record.SkipError
	if i.entries >= i.start.Entries || err != nil && !errors.As(err, &skip) {
		return false
	}
	i.entries++
	return true
}

// mark records the position of the input, if exactly the entries so far precede it.
func (i *inputPublisher) mark() {
	if at := i.in.Position(); i.record != nil && at.Entries == i.entries && at != (corpus.Position{}) {
		i.record.Mark(publish.Position{Entries: at.Entries, Offset: at.Offset, Line: at.Line})
	}
}

// publish publishes or leaves out an element of the input.
func (i *inputPublisher) publish(ctx context.Context, d record.Document, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limit := i.options.Limit; limit > 0 && i.offered.Load() >= limit {
		return errLimitReached
	}
	i.mark()
	document, err := i.publishDocument(ctx, i.to, d, err)
	i.entries++
	i.mark()
	i.found = i.found || document
	return err
}

// finish ends the record of the input.
func (i *inputPublisher) finish(ctx context.Context) error {
	if !i.found {
		return nil // not complete, so that publishing it again finds nothing again and reports it
	}
	i.summary.hasDocuments = true
	return i.to.Finish(ctx)
}
