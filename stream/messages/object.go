package messages

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// A request for parts of an object returns at most this many, and none after this many bytes.
const (
	maxObjectParts = 1024
	maxObjectBytes = 8 << 20
)

// GetObject reads an object of an object store. It returns jetstream.ErrObjectNotFound if the store's leader has none,
// conn.ErrReplicaLagging if a replica does not have all of it, and jetstream.ErrDigestMismatch if it is not what was
// stored. It makes one attempt.
//
// The library reads and lists objects through a consumer. While a cluster elects the leader that creates consumers,
// the library waits for it.
func GetObject(ctx context.Context, c *conn.Client, bucket, name string) ([]byte, error) {
	stream := "OBJ_" + bucket
	m, err := GetLast(ctx, c, stream, "$O."+bucket+".M."+base64.URLEncoding.EncodeToString([]byte(name)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, jetstream.ErrObjectNotFound
	}
	if err != nil {
		return nil, err
	}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return nil, fmt.Errorf("%w: %w", jetstream.ErrBadObjectMeta, err)
	}
	if info.Deleted {
		return nil, jetstream.ErrObjectNotFound
	}
	data := make([]byte, 0, min(info.Size, maxObjectBytes))
	parts, next := uint32(0), uint64(1)
	for parts < info.Chunks {
		question := fmt.Appendf(nil, `{"next_by_subj":%q,"seq":%d,"batch":%d,"max_bytes":%d}`, "$O."+bucket+".C."+info.NUID,
			next, maxObjectParts, maxObjectBytes)
		found, after, err := getRange(ctx, c, stream, question, maxObjectParts, math.MaxUint64-1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: object %s has %d parts, it has %d of them", conn.ErrReplicaLagging, name,
				info.Chunks, parts)
		}
		for _, part := range found {
			data = append(data, part.Data...)
		}
		parts, next = parts+uint32(len(found)), after
	}
	digest := sha256.Sum256(data)
	if info.Digest != "SHA-256="+base64.URLEncoding.EncodeToString(digest[:]) {
		return nil, fmt.Errorf("read object %s: %w", name, jetstream.ErrDigestMismatch)
	}
	return data, nil
}
