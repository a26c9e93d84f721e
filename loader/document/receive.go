package document

import "context"

// Receive waits for the next documents of a source. The caller calls Deliver when it no longer needs them. After an
// error, including that of ctx, nothing more can be received.
func Receive(ctx context.Context, s Source) ([]Document, error) {
	select {
	case c := <-s.Chunks():
		select {
		case <-c.Ready:
			return c.Documents, c.Err
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}
