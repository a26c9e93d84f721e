package stream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// JetStream's prefixes for the names of the streams behind buckets.
const (
	keyValuePrefix    = "KV_"
	objectStorePrefix = "OBJ_"
)

// EnsureKeyValue returns a key-value bucket. It creates the bucket if it does not exist.
func (s *Store) EnsureKeyValue(ctx context.Context, name, description string) (kv jetstream.KeyValue, err error) {
	err = s.ensure(ctx, "open key-value bucket "+name, func(ctx context.Context) (err error) {
		kv, err = s.JetStream().KeyValue(ctx, name)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			err = s.createReplicated(func(copies int) (err error) {
				kv, err = s.JetStream().CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Description: description,
					History: 1, MaxBytes: -1, Storage: jetstream.FileStorage, Replicas: copies})
				return err
			})
			if err == nil {
				s.createdStreams.add(keyValuePrefix + name)
			}
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another daemon was faster, with other settings
			kv, err = s.JetStream().KeyValue(ctx, name)
		}
		if err == nil {
			err = s.replicateBacking(ctx, keyValuePrefix+name)
		}
		return conn.AsFull(transientNotFound(err))
	})
	return kv, err
}

// transientNotFound marks a "stream not found" error as transient for a stream that was just found or created: some
// servers of a cluster may not have it yet.
func transientNotFound(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return conn.AsTransient(err)
	}
	return err
}

// EnsureObjectStore returns an object store. If it does not exist, EnsureObjectStore creates it with a bound of
// maxBytes or what the disk allows.
func (s *Store) EnsureObjectStore(ctx context.Context, name, description string,
	maxBytes int64) (objects jetstream.ObjectStore, err error) {
	err = s.ensure(ctx, "open object store "+name, func(ctx context.Context) (err error) {
		objects, err = s.JetStream().ObjectStore(ctx, name)
		if err == nil {
			return transientNotFound(s.replicateBacking(ctx, objectStorePrefix+name))
		}
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		room, err := s.streamBound(maxBytes)
		if err != nil {
			return err
		}
		err = s.createReplicated(func(copies int) (err error) {
			objects, err = s.JetStream().CreateObjectStore(ctx,
				jetstream.ObjectStoreConfig{Bucket: name, Description: description,
					MaxBytes: room, Storage: jetstream.FileStorage, Replicas: copies})
			return err
		})
		if err == nil {
			s.createdStreams.add(objectStorePrefix + name)
			err = s.replicateBacking(ctx, objectStorePrefix+name)
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another daemon was faster, with other settings
			err = conn.AsTransient(err)
		}
		return transientNotFound(err)
	})
	return objects, err
}
