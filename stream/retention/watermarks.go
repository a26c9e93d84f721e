package retention

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/casvalue"
)

// RunWatermark is the low watermark of a run over a document stream.
type RunWatermark struct {
	Stream string // that holds its documents
	Run    string
	From   uint64 // first document that it needs
	End    uint64 // of a sealed run, the last document that it reads; 0 if unknown
}

// ListWatermarks returns the low watermarks of all runs over all document streams, in no order. That of a run whose
// plan is deleted may be among them. It changes nothing.
func ListWatermarks(ctx context.Context, s *stream.Store) (all []RunWatermark, err error) {
	keys, err := listKeys(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		value, err := casvalue.ReadKey(ctx, s, Bucket, key)
		if err != nil {
			return nil, err
		}
		if len(value) == 0 { // deleted
			continue
		}
		stored, err := casvalue.Decode[watermarks](value)
		if err != nil {
			return nil, fmt.Errorf("key %s of bucket %s: %w", key, Bucket, err)
		}
		name, _, _ := strings.Cut(key, "/")
		for run, w := range stored.Value.Runs {
			all = append(all, RunWatermark{name, run, w.From, w.End})
		}
	}
	return all, nil
}

// listKeys returns all keys of the bucket, deleted ones too.
func listKeys(ctx context.Context, s *stream.Store) (keys []string, err error) {
	s = s.Own()
	err = s.Retry(ctx, "list the low watermarks of all runs", func(ctx context.Context) error {
		behind, prefix := casvalue.KeyAddress(Bucket, "")
		keys = nil
		bucket, err := s.JetStream().Stream(ctx, behind)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := bucket.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			keys = append(keys, strings.TrimPrefix(subject, prefix))
		}
		return nil
	})
	return keys, err
}

// Remove removes the low watermarks of a run, over all document streams. removed is false if it has none.
func Remove(ctx context.Context, s *stream.Store, run string) (removed bool, err error) {
	keys, err := listKeys(ctx, s)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		existed, err := removeWatermark(ctx, s, key, run)
		if err != nil {
			return removed, err
		}
		removed = removed || existed
	}
	return removed, nil
}

// removeWatermark removes a run's low watermark over a document stream. It does not raise the sequence below which
// documents may be purged: the next Release of another run does.
func removeWatermark(ctx context.Context, s *stream.Store, key, run string) (existed bool, err error) {
	c, err := openValue(ctx, s.Own(), key, "the low watermark of run "+run)
	if err != nil {
		return false, err
	}
	now, _, err := c.Read(ctx)
	if err != nil {
		return false, err
	}
	if _, existed = now.Value.Runs[run]; !existed {
		return false, nil
	}
	_, err = c.Update(ctx, func(all watermarks) (watermarks, error) {
		delete(all.Runs, run)
		return all, nil
	})
	return true, err
}

// Copy copies a run's low watermark over the document stream to other servers, with the sequence below which documents
// may be purged.
func Copy(ctx context.Context, from, to *stream.Store, run string) error {
	documents, err := from.Find(ctx, "the document stream", from.Config().Name, errNoDocuments)
	if err != nil {
		return err
	}
	key := valueKey(documents.CachedInfo())
	value, err := casvalue.ReadKey(ctx, from, Bucket, key)
	if err != nil || len(value) == 0 {
		return err
	}
	all, err := casvalue.Decode[watermarks](value)
	if err != nil {
		return fmt.Errorf("key %s of bucket %s: %w", key, Bucket, err)
	}
	c, err := openValue(ctx, to.Own(), key, "the low watermark of run "+run)
	if err != nil {
		return err
	}
	_, err = c.Update(ctx, func(there watermarks) (watermarks, error) {
		there.Purged = max(there.Purged, all.Value.Purged)
		if own, ok := all.Value.Runs[run]; ok {
			if there.Runs == nil {
				there.Runs = map[string]watermark{}
			}
			there.Runs[run] = own
		}
		return there, nil
	})
	return err
}
