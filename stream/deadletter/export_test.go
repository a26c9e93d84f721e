package deadletter

import "context"

// Killing lets published stop a retry behind a document that is published and not noted, and takes whoever has letters
// under way for dead.
func (r Retry) Killing(published func()) Retry {
	r.published, r.hurry = published, true
	return r
}

// Before calls settled where nobody has letters under way, and this retry has not noted its own.
func (r Retry) Before(settled func()) Retry {
	r.settled, r.hurry = settled, true
	return r
}

// Note records letters as published again.
func (b *Box) Note(ctx context.Context, letters ...uint64) error {
	r, err := openRetried(ctx, b, true)
	if err != nil {
		return err
	}
	return r.note(ctx, letters)
}
