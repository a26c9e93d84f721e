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

// uploadLimit bounds how long one checkpoint may take to be stored.
const uploadLimit = 2 * time.Minute

// upload is a checkpoint that is to be stored. The plan log already holds all records that it covers.
type upload struct {
	step  uint64
	state planrecord.Checkpoint
	done  func(error)
}

// uploads hands checkpoints from the writer to a goroutine that stores them in order, so that planning never waits for
// their storage. The loop takes no checkpoint while another is being stored, except the last one of a run or a process:
// two at most are in memory.
type uploads struct {
	store   *checkpointStore
	queue   chan upload
	pending atomic.Int32  // number of checkpoints that were taken and are not stored yet
	ready   chan struct{} // gets a value when a checkpoint was stored or given up
	ended   chan struct{} // closed when no further checkpoint is stored
}

func newUploads(store *checkpointStore) *uploads {
	return &uploads{
		store: store, queue: make(chan upload, 1), ready: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// enabled reports whether the run stores checkpoints.
func (u *uploads) enabled() bool { return u.store.backend != nil }

// busy reports whether a checkpoint is taken and not stored yet.
func (u *uploads) busy() bool { return u.pending.Load() > 0 }

// put queues an upload. The writer calls it, behind the records that the checkpoint covers.
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

// run stores what is queued until the queue is closed, or another process leads.
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
