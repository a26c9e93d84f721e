package planlog

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

	"loaderd/stream"
	"loaderd/stream/conn"
)

// cell is a value that several processes share: JSON under one key of a key-value bucket. It changes by compare-and-set alone, so that of
// two who read the same value one is refused and reads again. A read may be an old one: then what follows from it is refused.
type cell[T checked] struct {
	store   *stream.Store
	stream  string // behind the bucket
	key     string
	subject string
	what    string // in words, for errors
}

// checked is a value that says what no daemon writes.
type checked interface{ check() error }

// content is what stands under the key.
type content[T any] struct {
	// Change is an id of the change that made the value. It tells, when the answer to it is lost, whether it was stored.
	Change string `json:"change"`
	Value  T      `json:"value"`
}

// openCell opens the cell of a key. It creates the bucket when it is absent.
func openCell[T checked](ctx context.Context, s *stream.Store, bucket, description, key, what string) (*cell[T], error) {
	kv, err := s.EnsureKeyValue(ctx, bucket, description)
	if err != nil {
		return nil, err
	}
	c := &cell[T]{store: s, key: key, what: what}
	c.stream, c.subject = keyAt(kv.Bucket(), key)
	return c, nil
}

// keyAt returns the stream behind a bucket and the subject on which a key of it stands.
func keyAt(bucket, key string) (stream, subject string) {
	return "KV_" + bucket, "$KV." + bucket + "." + key
}

// read returns the value as some server has it, the zero value where none was written, and its revision.
func (c *cell[T]) read(ctx context.Context) (v content[T], revision uint64, err error) {
	err = c.store.Retry(ctx, "read "+c.what, func(ctx context.Context) error {
		v, revision = content[T]{}, 0
		m, err := c.store.GetLast(ctx, c.stream, c.subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if revision = m.Sequence; len(m.Data) == 0 { // deleted
			return nil
		}
		if v, err = decodeCell[T](m.Data); err != nil {
			return fmt.Errorf("%w (revision %d of stream %s): none of the daemons wrote that; restore the stream from its backup", err, revision, c.stream)
		}
		return nil
	})
	return v, revision, err
}

// decodeCell reads what stands under a key. Anything may, where others can write to the bucket.
func decodeCell[T checked](b []byte) (v content[T], err error) {
	if err = json.Unmarshal(b, &v); err == nil {
		err = v.Value.check()
	}
	return v, err
}

// update changes the value and returns the new one. change gets the value, which it may alter, and returns the one to be written, or why
// none is; it is called again when someone else was faster, so it does nothing else. An answer that is lost is made up for.
func (c *cell[T]) update(ctx context.Context, change func(T) (T, error)) (value T, err error) {
	id, wait, began := nuid.Next(), c.store.Backoff(), time.Now()
	for attempt := 1; ; attempt++ {
		old, revision, err := c.read(ctx)
		if err != nil {
			return value, err
		}
		if old.Change == id {
			return old.Value, nil
		}
		next, err := change(old.Value)
		if err != nil {
			return value, fmt.Errorf("change %s: %w", c.what, err)
		}
		err = c.store.Attempt(ctx, c.store.Limit(began), func(ctx context.Context) error { return c.write(ctx, revision, content[T]{id, next}) })
		switch {
		case err == nil:
			return next, nil
		case conn.WrongLast(err): // someone else was faster, the value that was read is an old one, or an earlier attempt of ours came
		case !conn.Transient(err) && ctx.Err() == nil:
			return value, fmt.Errorf("change %s: %w", c.what, err)
		case attempt == 1:
			c.store.Log().Warn("JetStream does not answer, trying again", "action", "change "+c.what, "error", err)
		}
		if err := c.store.Pause(ctx, wait.NextBackOff(), err); err != nil {
			return value, fmt.Errorf("change %s: %w", c.what, err)
		}
	}
}

// write makes one attempt to write a value in place of the one of a revision.
func (c *cell[T]) write(ctx context.Context, revision uint64, v content[T]) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	m := nats.NewMsg(c.subject)
	m.Data = data
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	m.Header.Set(jetstream.ExpectedStreamHeader, c.stream)
	_, err = c.store.Commit(ctx, false, m)
	return conn.AsFull(err)
}
