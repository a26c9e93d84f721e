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

// uploadLimit bounds the time to store one checkpoint.
const uploadLimit = 2 * time.Minute

// upload is a checkpoint to be stored. The plan log already holds all records that it covers.
type upload struct {
	step  uint64
	state planrecord.Checkpoint
	done  func(error)
}

// uploads passes checkpoints from the writer to a goroutine that stores them in order, so that planning never waits
// for their storage. The loop takes no checkpoint while another is being stored, except the last one of a run or a
// process. So at most two are in memory.
type uploads struct {
	store   *checkpointStore
	queue   chan upload
	pending atomic.Int32  // number of checkpoints taken but not stored yet
	ready   chan struct{} // receives a value when a checkpoint was stored or abandoned
	ended   chan struct{} // closed when no further checkpoint is stored
}

func newUploads(store *checkpointStore) *uploads {
	return &uploads{
		store: store, queue: make(chan upload, 1), ready: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// enabled reports whether the run stores checkpoints.
func (u *uploads) enabled() bool { return u.store.backend != nil }

// busy reports whether a checkpoint was taken but is not stored yet.
func (u *uploads) busy() bool { return u.pending.Load() > 0 }

// put queues an upload. The writer calls it after it has stored the records that the checkpoint covers.
func (u *uploads) put(ctx context.Context, x upload) {
	select {
	case u.queue <- x:
	case <-u.ended:
		u.finish(x, fault.ErrLeadershipLost)
	case <-ctx.Done():
		u.finish(x, ctx.Err())
	}
}

func (u *uploads) finish(x upload, err error) {
	x.done(err)
	u.pending.Add(-1)
	waiting.Signal(u.ready)
}

// run stores queued checkpoints until the queue is closed or another process leads.
func (u *uploads) run(ctx context.Context) error {
	defer close(u.ended)
	for x := range u.queue {
		limit, cancel := context.WithTimeout(ctx, uploadLimit)
		err := u.store.put(limit, x.step, x.state.Encode())
		cancel()
		u.finish(x, err)
		if errors.Is(err, fault.ErrLeadershipLost) {
			return u.store.term.lost(err)
		}
	}
	return nil
}
