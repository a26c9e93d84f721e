package deadletter

import "context"

// Killing calls published after each document that is published and not noted, where it can stop the retry. The retry
// does not wait for letters under way.
func (r Retry) Killing(published func()) Retry {
	r.published, r.hurry = published, true
	return r
}

// Before calls settled when no letters are under way and this retry has not noted its letters.
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
