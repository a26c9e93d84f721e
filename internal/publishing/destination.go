package publishing

import (
	"context"

	"loaderd/internal/corpus"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// destination is the destination of an input's documents: its record, or the publisher for an input without a record.
type destination interface {
	Publish(ctx context.Context, origin string, m stream.Message) error
	Skip(ctx context.Context, origin string) error
	Finish(ctx context.Context) error
}

// unrecordedInput publishes documents of inputs that are not recorded, such as standard input. Their ids are derived
// from their position in the input.
type unrecordedInput struct {
	p      *publish.Publisher
	source string
	index  int
}

func (u *unrecordedInput) Publish(ctx context.Context, origin string, m stream.Message) error {
	m.ID = publish.DocumentID(u.source, origin, u.index, m.Data, m.Meta)
	u.index++
	return u.p.Publish(ctx, m)
}

func (u *unrecordedInput) Skip(context.Context, string) error {
	u.index++
	return nil
}

func (u *unrecordedInput) Finish(context.Context) error { return nil }

// HasRecords reports whether the server records the commits of all inputs, so that publishing them again
// continues from there.
func HasRecords(inputs []*corpus.Input) bool {
	for _, in := range inputs {
		if in.Fingerprint == "" {
			return false
		}
	}
	return true
}
