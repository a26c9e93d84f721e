package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// retriesBucket records which letters were published again. It is stored with the document stream.
const retriesBucket = "loaderd_retries"

// blockLetters is the number of letters of one key, one bit each.
const blockLetters = 1 << 16

// letterBlock records which letters of a block were published again.
type letterBlock struct {
	Change string `json:"change"`         // id of the change that wrote it
	Done   []byte `json:"done,omitempty"` // bit i%8 of byte i/8: letter i of the block
}

func (b *letterBlock) has(i uint64) bool {
	return i/8 < uint64(len(b.Done)) && b.Done[i/8]&(1<<(i%8)) != 0
}

func (b *letterBlock) set(i uint64) {
	if n := i/8 + 1; n > uint64(len(b.Done)) {
		b.Done = append(b.Done, make([]byte, n-uint64(len(b.Done)))...)
	}
	b.Done[i/8] |= 1 << (i % 8)
}

// inFlight lists letters that are being published. A search after document From shows whether they were published.
type inFlight struct {
	Change  string   `json:"change"`
	Letters []uint64 `json:"letters,omitempty"`
	From    uint64   `json:"from"`
}

// retryRecord is the record of what was published again from one box. It is JSON under keys of a bucket, each updated
// by compare-and-swap.
type retryRecord struct {
	kv     jetstream.KeyValue
	store  *stream.Store
	prefix string // of keys: a recreated stream has other letters
}

// openRetryRecord opens the record. It returns nil if none exists and create is false.
func openRetryRecord(ctx context.Context, b *Queue, create bool) (*retryRecord, error) {
	r := &retryRecord{store: b.store, prefix: fmt.Sprintf("%s.%d.", b.Name(),
		stream.Created(b.stream.CachedInfo()).UnixNano())}
	if create {
		var err error
		r.kv, err = b.store.EnsureKeyValue(ctx, retriesBucket, "which dead letters were published again")
		return r, err
	}
	err := b.store.Retry(ctx, "open key-value bucket "+retriesBucket, func(ctx context.Context) (err error) {
		r.kv, err = b.store.JetStream().KeyValue(ctx, retriesBucket)
		return err
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	return r, err
}

func (r *retryRecord) blockKey(letter uint64) string {
	return fmt.Sprintf("%sblock.%d", r.prefix, letter/blockLetters)
}

func (r *retryRecord) inFlightKey() string { return r.prefix + "underway" }

// RetriedLetters returns which of the letters were published again. letters must ascend.
func (b *Queue) RetriedLetters(ctx context.Context, letters []uint64) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	r, err := openRetryRecord(ctx, b, false)
	if err != nil || r == nil {
		return out, err
	}
	return out, r.collectDone(ctx, letters, out)
}

// collectDone adds to into which of the letters were published again. letters must ascend.
func (r *retryRecord) collectDone(ctx context.Context, letters []uint64, into map[uint64]bool) error {
	var at letterBlock
	key := ""
	for _, letter := range letters {
		if k := r.blockKey(letter); k != key {
			var err error
			if at, _, _, err = readKey[letterBlock](ctx, r, k); err != nil {
				return err
			}
			key = k
		}
		if at.has(letter % blockLetters) {
			into[letter] = true
		}
	}
	return nil
}

// markDone records that letters were published again. letters must ascend.
func (r *retryRecord) markDone(ctx context.Context, letters []uint64) error {
	for len(letters) > 0 {
		key, n := r.blockKey(letters[0]), 1
		for n < len(letters) && r.blockKey(letters[n]) == key {
			n++
		}
		of := letters[:n]
		letters = letters[n:]
		_, err := updateKey(ctx, r, key, func(b *letterBlock) *string { return &b.Change }, func(b *letterBlock) error {
			for _, letter := range of {
				b.set(letter % blockLetters)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readKey returns the value under a key, when the server stored it, and its revision. The value is zero if the key does
// not exist.
func readKey[T any](ctx context.Context, r *retryRecord,
	key string) (value T, made time.Time, revision uint64, err error) {
	err = r.store.Retry(ctx, "read which dead letters were published again", func(ctx context.Context) error {
		var zero T
		value, revision = zero, 0
		m, err := messages.GetLast(ctx, r.store.Client, "KV_"+retriesBucket, "$KV."+retriesBucket+"."+key)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if made, revision = m.Time, m.Sequence; len(m.Data) == 0 { // deleted
			return nil
		}
		if err := json.Unmarshal(m.Data, &value); err != nil {
			return fmt.Errorf("key %s of bucket %s: %w: restore the bucket from its backup, or delete the key: then its "+
				"letters can be published a second time", key, retriesBucket, err)
		}
		return nil
	})
	return value, made, revision, err
}

// updateKey alters the value under a key and returns the id of the change, which the value stores at id. It retries
// after a concurrent change or a lost response.
func updateKey[T any](ctx context.Context, r *retryRecord, key string, id func(*T) *string,
	alter func(*T) error) (mine string, err error) {
	mine = nuid.Next()
	wait := r.store.Backoff()
	for {
		value, _, revision, err := readKey[T](ctx, r, key)
		if err != nil {
			return "", err
		}
		if *id(&value) == mine {
			return mine, nil
		}
		if err := alter(&value); err != nil {
			return "", err
		}
		*id(&value) = mine
		b, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		err = r.store.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
			_, err := r.kv.Update(ctx, key, b, revision)
			return err
		})
		if err == nil {
			return mine, nil
		}
		if !conn.IsWrongLastSequence(err) && !conn.IsTransient(err) {
			return "", fmt.Errorf("record which dead letters were published again: %w", conn.AsFull(err))
		}
		if err := r.store.Pause(ctx, wait.NextBackOff(), err); err != nil {
			return "", fmt.Errorf("record which dead letters were published again: %w", err)
		}
	}
}
