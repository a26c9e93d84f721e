// Package casvalue stores values that several daemons change: JSON in key-value buckets of JetStream, changed by
// compare-and-set, and fences that refuse the changes of an earlier leader.
package casvalue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/internal/event"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Value is a value that several processes share: JSON under one key of a key-value bucket. It changes only by
// compare-and-set: of two processes that read the same value, one is refused and reads again. A read may return an
// old value. An update that starts from an old value is refused.
type Value[T Checker] struct {
	store       *stream.Store
	stream      string // behind the bucket
	key         string
	subject     string
	description string // description for errors
}

// Checker is a value that can detect content that no daemon writes.
type Checker interface{ Check() error }

// Envelope is the form of a value in the bucket.
type Envelope[T any] struct {
	// Change is the id of the change that produced the value. If the response to a change is lost, the id shows
	// whether it was stored.
	Change string `json:"change"`
	Value  T      `json:"value"`
}

// Open opens the value under a key. It creates the bucket, with a description, if it does not exist. what describes
// the value in errors.
func Open[T Checker](ctx context.Context, s *stream.Store, bucket, description, key, what string) (*Value[T], error) {
	kv, err := s.EnsureKeyValue(ctx, bucket, description)
	if err != nil {
		return nil, err
	}
	c := &Value[T]{store: s, key: key, description: what}
	c.stream, c.subject = KeyAddress(kv.Bucket(), key)
	return c, nil
}

// Key returns the key of the value in its bucket.
func (c *Value[T]) Key() string { return c.key }

// KeyAddress returns the stream behind a bucket and the subject of one of its keys.
func KeyAddress(bucket, key string) (stream, subject string) {
	return "KV_" + bucket, "$KV." + bucket + "." + key
}

// Read returns the value and its revision from any server; the zero value if none was written.
func (c *Value[T]) Read(ctx context.Context) (v Envelope[T], revision uint64, err error) {
	err = c.store.Retry(ctx, "read "+c.description, func(ctx context.Context) error {
		v, revision = Envelope[T]{}, 0
		m, err := messages.GetLast(ctx, c.store.Client, c.stream, c.subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if revision = m.Sequence; len(m.Data) == 0 { // deleted
			return nil
		}
		if v, err = Decode[T](m.Data); err != nil {
			return fmt.Errorf(
				"%w (revision %d of stream %s): none of the daemons wrote that; restore the stream from its backup", err,
				revision, c.stream)
		}
		return nil
	})
	return v, revision, err
}

// Decode reads the stored form of a value. It refuses a value that no daemon writes, because other processes may
// write to the bucket.
func Decode[T Checker](b []byte) (v Envelope[T], err error) {
	if err = json.Unmarshal(b, &v); err == nil {
		err = v.Value.Check()
	}
	return v, err
}

// Update changes the value and returns the new one. change receives the value, which it may modify, and returns the
// value to write, or an error to write nothing. It is called again after another process has changed the value, so it
// must have no other effect. Update repeats a request whose response is lost, without applying the change twice.
func (c *Value[T]) Update(ctx context.Context, change func(T) (T, error)) (value T, err error) {
	id, wait, began := nuid.Next(), c.store.Backoff(), time.Now()
	for attempt := 1; ; attempt++ {
		old, revision, err := c.Read(ctx)
		if err != nil {
			return value, err
		}
		if old.Change == id {
			return old.Value, nil
		}
		next, err := change(old.Value)
		if err != nil {
			return value, fmt.Errorf("change %s: %w", c.description, err)
		}
		err = c.store.Attempt(ctx, c.store.NextTimeout(began), func(ctx context.Context) error {
			return c.write(ctx, revision, Envelope[T]{id, next})
		})
		switch {
		case err == nil:
			return next, nil
		case conn.IsWrongLastSequence(err):
			// another process changed the value, an outdated value was read, or an earlier attempt was stored
		case !conn.IsTransient(err) && ctx.Err() == nil:
			return value, fmt.Errorf("change %s: %w", c.description, err)
		case attempt == 1:
			c.store.Log().Warn("JetStream does not answer, trying again", event.JetStreamUnavailable, "action",
				"change "+c.description,
				"error", err)
		}
		if err := c.store.Pause(ctx, wait.NextBackOff(), err); err != nil {
			return value, fmt.Errorf("change %s: %w", c.description, err)
		}
	}
}

// write makes one attempt to replace the value of a revision.
func (c *Value[T]) write(ctx context.Context, revision uint64, v Envelope[T]) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	m := nats.NewMsg(c.subject)
	m.Data = data
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	m.Header.Set(jetstream.ExpectedStreamHeader, c.stream)
	_, err = messages.Commit(ctx, c.store.Client, false, m)
	return conn.AsFull(err)
}

// ReadKey returns the value of a key of a bucket, nil if the key was never written or is deleted, or if the bucket
// does not exist.
func ReadKey(ctx context.Context, s *stream.Store, bucket, key string) (value []byte, err error) {
	s = s.Own()
	err = s.Retry(ctx, fmt.Sprintf("read key %s of bucket %s", key, bucket), func(ctx context.Context) error {
		stream, subject := KeyAddress(bucket, key)
		m, err := messages.GetLast(ctx, s.Client, stream, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err == nil {
			value = m.Data
		}
		return err
	})
	return value, err
}

// DeleteKey removes a key of a bucket. existed is false where the bucket or the key does not exist.
func DeleteKey(ctx context.Context, s *stream.Store, bucket, key string) (existed bool, err error) {
	value, err := ReadKey(ctx, s, bucket, key)
	if err != nil || len(value) == 0 {
		return false, err
	}
	s = s.Own()
	err = s.Retry(ctx, fmt.Sprintf("remove key %s of bucket %s", key, bucket), func(ctx context.Context) error {
		kv, err := s.JetStream().KeyValue(ctx, bucket)
		if err != nil {
			return err
		}
		return kv.Purge(ctx, key)
	})
	return err == nil, err
}
