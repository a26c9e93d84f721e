package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// ErrNoObject says that there is no object of a name.
var ErrNoObject = errors.New("there is no such object")

const (
	objectsPrefix = "CHECKPOINTS_"
	// objectStreamPrefix is what JetStream puts before an object store's name to name its stream.
	objectStreamPrefix = "OBJ_"
)

// transferLimit bounds one attempt to move an object: a large checkpoint over a slow link.
const transferLimit = 2 * time.Minute

// Objects keeps a run's checkpoints in a JetStream object store. An object appears whole or not at all: its pieces are stored
// first and its entry last, and its digest is verified when it is read.
type Objects struct {
	store  *Store
	bucket jetstream.ObjectStore
	name   string
}

// Object describes one object.
type Object struct {
	Name   string
	Bytes  int64
	Stored time.Time
}

// Objects opens the object store of a run and creates it when it is absent.
func (s *Store) Objects(ctx context.Context, run string) (*Objects, error) {
	if err := ValidRun(run); err != nil {
		return nil, err
	}
	o := &Objects{store: s, name: objectsPrefix + run}
	err := s.Retry(ctx, "open object store "+o.name, func(ctx context.Context) (err error) {
		o.bucket, err = s.JetStream().ObjectStore(ctx, o.name)
		if err == nil {
			return s.replicateBacking(ctx, objectStreamPrefix+o.name)
		}
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		room, err := s.room(s.config.PlanBytes)
		if err != nil {
			return err
		}
		o.bucket, err = s.JetStream().CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket:      o.name,
			Description: "planner checkpoints of run " + run,
			MaxBytes:    room,
			Storage:     jetstream.FileStorage,
			Replicas:    s.config.Replicas,
		})
		if err == nil {
			s.made.add(objectStreamPrefix + o.name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// The client stores objects in chunks of objectChunk, unless it is told otherwise; a chunk must fit into a message beside its headers.
const (
	objectChunk = 128 << 10
	objectRoom  = 4 << 10
)

// Put stores an object, in place of one of the same name.
func (o *Objects) Put(ctx context.Context, name string, data []byte) error {
	return o.store.RetryWithin(ctx, transferLimit, fmt.Sprintf("store object %s in %s", name, o.name), func(ctx context.Context) error {
		meta := jetstream.ObjectMeta{Name: name}
		if most := o.store.Conn().MaxPayload() - objectRoom; most > 0 && most < objectChunk {
			meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(most)}
		}
		_, err := o.bucket.Put(ctx, meta, bytes.NewReader(data))
		return conn.AsFull(err)
	})
}

// Get returns an object's bytes, ErrNoObject when there is none, and an error when they are not what was stored.
func (o *Objects) Get(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	err := o.store.RetryWithin(ctx, transferLimit, fmt.Sprintf("read object %s of %s", name, o.name), func(ctx context.Context) (err error) {
		data, err = o.bucket.GetBytes(ctx, name)
		return asMissing(err)
	})
	return data, err
}

// List returns the objects, newest first.
func (o *Objects) List(ctx context.Context) ([]Object, error) {
	var infos []*jetstream.ObjectInfo
	err := o.store.Retry(ctx, "list objects of "+o.name, func(ctx context.Context) (err error) {
		infos, err = o.bucket.List(ctx)
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			infos, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]Object, 0, len(infos))
	for _, i := range infos {
		list = append(list, Object{i.Name, int64(i.Size), i.ModTime})
	}
	slices.SortStableFunc(list, func(a, b Object) int { return b.Stored.Compare(a.Stored) })
	return list, nil
}

// Delete removes an object. One that is not there is no error.
func (o *Objects) Delete(ctx context.Context, name string) error {
	return o.store.Retry(ctx, fmt.Sprintf("delete object %s of %s", name, o.name), func(ctx context.Context) error {
		if err := asMissing(o.bucket.Delete(ctx, name)); !errors.Is(err, ErrNoObject) {
			return err
		}
		return nil
	})
}

func asMissing(err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return ErrNoObject
	}
	return err
}
