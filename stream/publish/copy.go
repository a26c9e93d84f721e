package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// CopyRecords copies the publishing records of a document stream to other servers, to which the stream is copied too.
// It returns the number of records.
func CopyRecords(ctx context.Context, from, to *stream.Store) (n int, err error) {
	documents, err := from.Find(ctx, "the document stream", from.Config().Name, errors.New("there is no document stream"))
	if err != nil {
		return 0, err
	}
	created := stream.Created(documents.CachedInfo())
	kv, err := from.JetStream().KeyValue(ctx, stream.RecordsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open key-value bucket %s: %w", stream.RecordsBucket, err)
	}
	keys, err := kv.ListKeys(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the keys of bucket %s: %w", stream.RecordsBucket, err)
	}
	defer keys.Stop() //nolint:errcheck // fails only on a closed connection
	var target jetstream.KeyValue
	for key := range keys.Keys() {
		record, err := kv.Get(ctx, key)
		if err != nil {
			return n, fmt.Errorf("read key %s of bucket %s: %w", key, stream.RecordsBucket, err)
		}
		var v recordValue
		if json.Unmarshal(record.Value(), &v) != nil || v.Stream != from.Config().Name || !v.Created.Equal(created) {
			continue
		}
		if target == nil {
			if target, err = to.EnsureRecords(ctx); err != nil {
				return n, err
			}
		}
		err = to.Retry(ctx, "write key "+key+" of bucket "+stream.RecordsBucket, func(ctx context.Context) error {
			_, err := target.Put(ctx, key, record.Value())
			return err
		})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
