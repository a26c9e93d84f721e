package document

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"loaderd/loader/fault"
)

// maxOpenPause is the maximum pause between two attempts to open a document stream.
const maxOpenPause = 2 * time.Second

// OpenSource opens a source as docs.Read does. If the error has the reason SOURCE_DOWN, it calls failed with it and
// retries with exponential backoff. It stops when ctx is done or after within; 0 sets no bound.
func OpenSource(ctx context.Context, docs interface {
	Read(ctx context.Context, from uint64) (Source, error)
}, from uint64, within time.Duration, failed func(error)) (Source, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.Multiplier, wait.RandomizationFactor = 50*time.Millisecond, 2, 0.5
	wait.MaxInterval = maxOpenPause * 2 / 3 // a pause is at most one and a half times as long
	attempt := func() (Source, error) {
		source, err := docs.Read(ctx, from)
		var down *fault.Error
		if err != nil && (!errors.As(err, &down) || down.Reason != fault.SourceDown || ctx.Err() != nil) {
			err = backoff.Permanent(err)
		}
		return source, err
	}
	return backoff.Retry(ctx, attempt, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(within),
		backoff.WithNotify(func(err error, _ time.Duration) { failed(err) }))
}
