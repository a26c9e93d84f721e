package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/planrecord"
)

// uploadTimeout bounds the time to store one checkpoint.
const uploadTimeout = 2 * time.Minute

// upload is a checkpoint to be stored. The plan log already holds all records that it covers.
type upload struct {
	step       uint64
	checkpoint planrecord.Checkpoint
	done       func(error)
}

// uploadQueue passes checkpoints from the writer to a goroutine that stores them in order, so that planning never waits
// for their storage. The loop takes no checkpoint while another is being stored, except the last one of a run or a
// process. So at most two are in memory.
type uploadQueue struct {
	store   *checkpointStore
	uploads chan upload
	pending atomic.Int32  // number of checkpoints taken but not stored yet
	ready   chan struct{} // receives a value when a checkpoint was stored or abandoned
	closed  chan struct{} // closed when no further checkpoint is stored
}

func newUploads(store *checkpointStore) *uploadQueue {
	return &uploadQueue{
		store: store, uploads: make(chan upload, 1), ready: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// isEnabled reports whether the run stores checkpoints.
func (u *uploadQueue) isEnabled() bool { return u.store.backend != nil }

// isBusy reports whether a checkpoint was taken but is not stored yet.
func (u *uploadQueue) isBusy() bool { return u.pending.Load() > 0 }

// enqueue queues an upload. The writer calls it after it has stored the records that the checkpoint covers.
func (u *uploadQueue) enqueue(ctx context.Context, x upload) {
	select {
	case u.uploads <- x:
	case <-u.closed:
		u.finish(x, fault.ErrLeadershipLost)
	case <-ctx.Done():
		u.finish(x, ctx.Err())
	}
}

func (u *uploadQueue) finish(x upload, err error) {
	x.done(err)
	u.pending.Add(-1)
	waiting.Signal(u.ready)
}

// run stores queued checkpoints until the queue is closed or another process leads.
func (u *uploadQueue) run(ctx context.Context) error {
	defer close(u.closed)
	for x := range u.uploads {
		limit, cancel := context.WithTimeout(ctx, uploadTimeout)
		err := u.store.put(limit, x.step, x.checkpoint.Encode())
		cancel()
		u.finish(x, err)
		if errors.Is(err, fault.ErrLeadershipLost) {
			return u.store.term.leadershipError(err)
		}
	}
	return nil
}
