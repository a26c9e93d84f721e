package loader

import (
	"context"
	"sync/atomic"
	"time"

	"loaderd/loader/plan"
)

// uploadLimit bounds how long one checkpoint may take to be stored.
const uploadLimit = 2 * time.Minute

// upload is a checkpoint on its way to where checkpoints are kept. What it covers is in the plan log.
type upload struct {
	step  uint64
	state plan.Checkpoint
	done  func(error)
}

// uploads stores checkpoints one after the other, in the order in which they were taken, beside the plan: however long that takes, nobody
// waits for it. While one is on its way the loop takes no other, save the last one of a run or a process, so that two at most are held.
type uploads struct {
	queue chan upload
	under atomic.Int32  // on their way
	ready chan struct{} // one has arrived, or was given up
}

func newUploads() *uploads {
	return &uploads{queue: make(chan upload, 1), ready: make(chan struct{}, 1)}
}

// put queues an upload. The writer calls it, behind the records that the checkpoint covers.
func (u *uploads) put(ctx context.Context, x upload) {
	select {
	case u.queue <- x:
	case <-ctx.Done():
		u.finish(x, ctx.Err())
	}
}

func (u *uploads) finish(x upload, err error) {
	x.done(err)
	u.under.Add(-1)
	select {
	case u.ready <- struct{}{}:
	default:
	}
}

// upload stores what is queued until the queue is closed.
func (l *leader) upload(ctx context.Context, u *uploads) {
	for x := range u.queue {
		limit, cancel := context.WithTimeout(ctx, uploadLimit)
		err := l.storeCheckpoint(limit, x.step, x.state.Encode())
		cancel()
		u.finish(x, err)
	}
}
