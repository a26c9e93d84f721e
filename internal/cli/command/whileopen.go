package command

import (
	"context"
	"io"
)

// WhileOpen returns a context that ends with ctx, or at the end of r or its first read error.
func WhileOpen(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // a read error also ends the context
		cancel()
	}()
	return ctx, cancel
}
