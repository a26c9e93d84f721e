package loader

import (
	"context"
	"fmt"
)

// feed hands chunks of documents from a source to the leader's loop, which must not block in the source while a request waits.
type feed struct {
	chunks chan []Document
	done   chan struct{} // gets a value when the loop has planned a chunk; has room for it
}

func newFeed() feed { return feed{make(chan []Document), make(chan struct{}, 1)} }

// pump hands over one chunk after the other until ctx is done. While the loop plans one, pump does not call Next: documents that the loop
// holds are not delivered yet, for the source's bound of bytes and for stall causes.
func (f feed) pump(ctx context.Context, source Source) error {
	for {
		docs, err := source.Next(ctx)
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

// always can be received from at any time.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
