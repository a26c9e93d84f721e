package planlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/conn"
)

// ErrNoCheckpoint says that there is no checkpoint of a name.
var ErrNoCheckpoint = errors.New("there is no such object")

// transferLimit bounds one attempt to move a checkpoint: a large one over a slow link.
const transferLimit = 2 * time.Minute

// Checkpoints keeps a run's checkpoints in a JetStream object store. It implements loader.Checkpoints. A checkpoint appears whole or not at
// all: its chunks are stored first and its entry last, and its digest is verified when it is read.
//
// What a crash leaves behind each step, and what follows:
//
//	Put: chunks            chunks that no entry names      List and Get show what they showed before, one of the same name too
//	Put: entry             the new checkpoint is there     a start of the run finds it; chunks of one that it replaced stay
//	older ones deleted     some older ones remain          a start takes the newest that fits the plan; the run deletes the others
//	                                                       behind its next Put
//	Delete: entry          chunks that no entry names      List and Get do not show it
//
// Chunks that no entry names do no harm but to the disk: they count against the store's bound until the run's store is deleted.
type Checkpoints struct {
	store  *stream.Store
	bucket jetstream.ObjectStore
	name   string
}

var _ loader.Checkpoints = (*Checkpoints)(nil)

// OpenCheckpoints opens the checkpoints of a run and creates their store when it is absent.
func OpenCheckpoints(ctx context.Context, s *stream.Store, run string) (*Checkpoints, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	c := &Checkpoints{store: s, name: "CHECKPOINTS_" + run}
	var err error
	c.bucket, err = s.EnsureObjectStore(ctx, c.name, "planner checkpoints of run "+run, s.Config().PlanBytes)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// The client stores objects in chunks of objectChunk, unless it is told otherwise; a chunk must fit into a message beside its headers.
const (
	objectChunk = 128 << 10
	objectRoom  = 4 << 10
)

// Put stores a checkpoint, in place of one of the same name.
func (c *Checkpoints) Put(ctx context.Context, name string, data []byte) error {
	return c.store.RetryWithin(ctx, transferLimit, fmt.Sprintf("store object %s in %s", name, c.name), func(ctx context.Context) error {
		meta := jetstream.ObjectMeta{Name: name}
		if most := c.store.Conn().MaxPayload() - objectRoom; most > 0 && most < objectChunk {
			meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(most)}
		}
		_, err := c.bucket.Put(ctx, meta, bytes.NewReader(data))
		return conn.AsFull(err)
	})
}

// Get returns a checkpoint's bytes, ErrNoCheckpoint when there is none, and an error when they are not what was stored.
func (c *Checkpoints) Get(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	err := c.store.RetryWithin(ctx, transferLimit, fmt.Sprintf("read object %s of %s", name, c.name), func(ctx context.Context) (err error) {
		data, err = c.bucket.GetBytes(ctx, name)
		return asMissing(err)
	})
	return data, err
}

// List returns the names, newest first.
func (c *Checkpoints) List(ctx context.Context) ([]string, error) {
	var infos []*jetstream.ObjectInfo
	err := c.store.Retry(ctx, "list objects of "+c.name, func(ctx context.Context) (err error) {
		infos, err = c.bucket.List(ctx)
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			infos, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(infos, func(a, b *jetstream.ObjectInfo) int { return b.ModTime.Compare(a.ModTime) })
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name
	}
	return names, nil
}

// Delete removes a checkpoint. One that is not there is no error.
func (c *Checkpoints) Delete(ctx context.Context, name string) error {
	return c.store.Retry(ctx, fmt.Sprintf("delete object %s of %s", name, c.name), func(ctx context.Context) error {
		if err := asMissing(c.bucket.Delete(ctx, name)); !errors.Is(err, ErrNoCheckpoint) {
			return err
		}
		return nil
	})
}

func asMissing(err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return ErrNoCheckpoint
	}
	return err
}
