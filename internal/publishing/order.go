package publishing

import (
	"context"

	"loaderd/internal/corpus"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// order is the destination of an input's documents: its record, or the publisher for an input without a record.
type order interface {
	Publish(ctx context.Context, origin string, m stream.Message) error
	Skip(ctx context.Context, origin string) error
	Finish(ctx context.Context) error
}

// unrecorded publishes documents of inputs that are not recorded, such as standard input. Their ids are derived from
// their position in the input.
type unrecorded struct {
	p      *publish.Publisher
	source string
	index  int
}

func (u *unrecorded) Publish(ctx context.Context, origin string, m stream.Message) error {
	m.ID = publish.DocumentID(u.source, origin, u.index, m.Data, m.Meta)
	u.index++
	return u.p.Publish(ctx, m)
}

func (u *unrecorded) Skip(context.Context, string) error {
	u.index++
	return nil
}

func (u *unrecorded) Finish(context.Context) error { return nil }

// Recorded reports whether the server records the commits of all inputs, so that publishing them again
// continues from there.
func Recorded(inputs []*corpus.Input) bool {
	for _, in := range inputs {
		if in.Fingerprint == "" {
			return false
		}
	}
	return true
}
