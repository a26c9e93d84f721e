package publishing

import (
	"context"

	"loaderd/internal/corpus"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// order is where an input's documents go: its record, or for what has none the publisher itself.
type order interface {
	Publish(ctx context.Context, origin string, m stream.Message) error
	Skip(ctx context.Context, origin string) error
	Finish(ctx context.Context) error
}

// unrecorded publishes documents of inputs that are not recorded, such as standard input: their ids follow from their
// place among them.
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

// Recorded says whether the server knows of all inputs what is committed, so that publishing them again goes on from
// there.
func Recorded(inputs []*corpus.Input) bool {
	for _, in := range inputs {
		if in.Fingerprint == "" {
			return false
		}
	}
	return true
}
