package publishing

import (
	"context"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// inputPublisher publishes the elements of an input.
type inputPublisher struct {
	*Session
	to    destination
	found bool
}

// openInput opens the record of an input. It returns nil if the input is complete according to its record.
func (p *Session) openInput(ctx context.Context, in *corpus.Input) (*inputPublisher, error) {
	if in.Fingerprint == "" || p.options.Unrecorded {
		return &inputPublisher{Session: p, to: &unrecordedInput{p: p.publisher, source: p.options.Source}}, nil
	}
	record, err := p.publisher.Resume(ctx, in.Name, in.Fingerprint)
	if err != nil {
		return nil, err
	}
	if record.Complete() {
		in.MarkRead()
		p.summary.AlreadyStored += record.Stored()
		p.summary.skippedInputs++
		return nil, nil
	}
	return &inputPublisher{Session: p, to: record}, nil
}

// publish publishes or leaves out an element of the input.
func (i *inputPublisher) publish(ctx context.Context, d record.Document, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limit := i.options.Limit; limit > 0 && i.offered.Load() >= limit {
		return errLimitReached
	}
	document, err := i.publishDocument(ctx, i.to, d, err)
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
