package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/conn"
)

// Queue is the order in which inputs are about to be published. It is stored before the first of them is published. A
// restarted publisher publishes the remaining inputs in that order, whatever inputs were added meanwhile.
type Queue struct {
	p        *Publisher
	key      string
	revision uint64
	value    queueValue
}

// queueValue is the stored form.
type queueValue struct {
	Version int       `json:"version"`
	Stream  string    `json:"stream"`
	Created time.Time `json:"stream_created"`
	Follows []string  `json:"follows"`
	Inputs  []string  `json:"queue"`
}

const queueVersion = 1

// Queue opens the queue of the inputs that match the patterns follows, for the publisher's source.
func (p *Publisher) Queue(ctx context.Context, follows []string) (*Queue, error) {
	h := sha256.New()
	for _, pattern := range append([]string{p.store.Config().Name, p.source}, follows...) {
		_, _ = fmt.Fprintf(h, "%s\x00", pattern)
	}
	q := &Queue{p: p, key: p.source + ".queue." + hex.EncodeToString(h.Sum(nil)[:16])}
	kv, err := p.recordBucket(ctx)
	if err != nil {
		return nil, err
	}
	var stored jetstream.KeyValueEntry
	err = p.retryRecord(ctx, "read the queue of files", func(ctx context.Context) (err error) {
		stored, err = kv.Get(ctx, q.key)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return nil, err
	default:
		q.revision = stored.Revision()
		if q.value, err = decodeQueue(stored.Value()); err != nil {
			return nil, fmt.Errorf("read the queue of files (key %s of bucket %s): %w", q.key, stream.RecordsBucket, err)
		}
	}
	if !q.value.Created.Equal(p.created) { // of a deleted stream
		q.value.Inputs = nil
	}
	q.value.Version, q.value.Stream, q.value.Created, q.value.Follows = queueVersion, p.store.Config().Name,
		p.created, follows
	return q, nil
}

func decodeQueue(data []byte) (v queueValue, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		return queueValue{}, err
	}
	if v.Version < 1 || v.Version > queueVersion {
		return queueValue{}, fmt.Errorf("it has version %d, this binary knows %d: use a newer loaderd", v.Version,
			queueVersion)
	}
	return v, nil
}

// Inputs returns the inputs that were stored last.
func (q *Queue) Inputs() []string { return q.value.Inputs }

// Write stores the next inputs in place of the previous ones. It returns ErrTakenOver if another publisher that
// follows the same patterns has stored others.
func (q *Queue) Write(ctx context.Context, inputs []string) error {
	q.value.Inputs = inputs
	data, err := json.Marshal(q.value)
	if err != nil {
		return fmt.Errorf("encode the queue of files: %w", err)
	}
	return q.p.retryRecord(ctx, "write the queue of files", func(ctx context.Context) error {
		kv, err := q.p.recordBucket(ctx)
		if err != nil {
			return err
		}
		revision, err := kv.Update(ctx, q.key, data, q.revision)
		if errors.Is(err, jetstream.ErrKeyExists) || conn.IsWrongLastSequence(err) {
			// Possibly an earlier write of this publisher, whose response was lost.
			stored, getErr := kv.Get(ctx, q.key)
			if getErr != nil {
				return getErr
			}
			if string(stored.Value()) != string(data) {
				return fmt.Errorf("write the queue of files: %w", ErrTakenOver)
			}
			revision, err = stored.Revision(), nil
		}
		if err == nil {
			q.revision = revision
		}
		return err
	})
}

// State is what is recorded of an input.
type State int

// What is recorded of an input.
const (
	Unknown  State = iota // nothing of it was published
	Partial               // a part, or another version of a part
	Complete              // all of it
	Changed               // all of an earlier version
)

// State returns what is recorded of an input, and changes nothing. Name and fingerprint are as for Resume.
func (p *Publisher) State(ctx context.Context, name, fingerprint string) (State, error) {
	kv, err := p.recordBucket(ctx)
	if err != nil {
		return Unknown, err
	}
	r := &Record{p: p, key: p.recordKey(name)}
	if err := r.read(ctx, kv, name); err != nil {
		return Unknown, err
	}
	switch v := r.value; {
	case r.revision == 0 || !v.Created.Equal(p.created):
		return Unknown, nil
	case !v.Complete:
		return Partial, nil
	case v.Fingerprint != "" && v.Fingerprint != fingerprint:
		return Changed, nil
	}
	return Complete, nil
}
