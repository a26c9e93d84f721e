package stream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// What JetStream puts before the name of a bucket to name its stream.
const (
	keyValuePrefix    = "KV_"
	objectStorePrefix = "OBJ_"
)

// EnsureKeyValue returns a key-value bucket. It creates the bucket when it is absent.
func (s *Store) EnsureKeyValue(ctx context.Context, name, description string) (kv jetstream.KeyValue, err error) {
	err = s.ensure(ctx, "open key-value bucket "+name, func(ctx context.Context) (err error) {
		kv, err = s.JetStream().KeyValue(ctx, name)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			err = s.copied(func(copies int) (err error) {
				kv, err = s.JetStream().CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Description: description,
					History: 1, MaxBytes: -1, Storage: jetstream.FileStorage, Replicas: copies})
				return err
			})
			if err == nil {
				s.made.add(keyValuePrefix + name)
			}
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another daemon was faster, with other settings
			kv, err = s.JetStream().KeyValue(ctx, name)
		}
		if err == nil {
			err = s.replicateBacking(ctx, keyValuePrefix+name)
		}
		return conn.AsFull(soon(err))
	})
	return kv, err
}

// soon marks the answer that there is no stream, where it was found or made a moment ago: not all servers of a cluster
// know of it yet.
func soon(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return conn.Passing(err)
	}
	return err
}

// EnsureObjectStore returns an object store. It creates the store when it is absent, as large as maxBytes or as the
// disk allows.
func (s *Store) EnsureObjectStore(ctx context.Context, name, description string,
	maxBytes int64) (objects jetstream.ObjectStore, err error) {
	err = s.ensure(ctx, "open object store "+name, func(ctx context.Context) (err error) {
		objects, err = s.JetStream().ObjectStore(ctx, name)
		if err == nil {
			return soon(s.replicateBacking(ctx, objectStorePrefix+name))
		}
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		room, err := s.room(maxBytes)
		if err != nil {
			return err
		}
		err = s.copied(func(copies int) (err error) {
			objects, err = s.JetStream().CreateObjectStore(ctx,
				jetstream.ObjectStoreConfig{Bucket: name, Description: description,
					MaxBytes: room, Storage: jetstream.FileStorage, Replicas: copies})
			return err
		})
		if err == nil {
			s.made.add(objectStorePrefix + name)
			err = s.replicateBacking(ctx, objectStorePrefix+name)
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another daemon was faster, with other settings
			err = conn.Passing(err)
		}
		return soon(err)
	})
	return objects, err
}
