package deadletter

import "context"

// AfterPublish calls published after each document that is published and not noted, where it can stop the retry. The
// retry does not wait for letters under way.
func (r Retry) AfterPublish(published func()) Retry {
	r.afterPublish, r.skipWait = published, true
	return r
}

// AfterSettle calls settled when no letters are under way and this retry has not noted its letters.
func (r Retry) AfterSettle(settled func()) Retry {
	r.afterSettle, r.skipWait = settled, true
	return r
}

// MarkDone records letters as published again.
func (b *Queue) MarkDone(ctx context.Context, letters ...uint64) error {
	r, err := openRetryRecord(ctx, b, true)
	if err != nil {
		return err
	}
	return r.markDone(ctx, letters)
}
