package planlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// Need is the floor of a run.
type Need struct {
	Stream string // that its documents come from
	Run    string
	From   uint64 // first document that it needs
	End    uint64 // of a sealed run, the last document that it reads; 0 where that is not known
}

// Needs returns the floors of all runs over all document streams, in no order. That of a run whose plan is gone may be among them. It changes
// nothing.
func Needs(ctx context.Context, s *stream.Store) (all []Need, err error) {
	keys, err := floorsKeys(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		value, err := lastValue(ctx, s, floorsBucket, key)
		if err != nil {
			return nil, err
		}
		if len(value) == 0 { // deleted
			continue
		}
		cell, err := decodeCell[floors](value)
		if err != nil {
			return nil, fmt.Errorf("key %s of bucket %s: %w", key, floorsBucket, err)
		}
		name, _, _ := strings.Cut(key, "/")
		for run, floor := range cell.Value.Runs {
			all = append(all, Need{name, run, floor.From, floor.End})
		}
	}
	return all, nil
}

// floorsKeys are all keys of the floors' bucket, deleted ones too.
func floorsKeys(ctx context.Context, s *stream.Store) (keys []string, err error) {
	s = s.Own()
	err = s.Retry(ctx, "list the floors of all runs", func(ctx context.Context) error {
		behind, prefix := keyAt(floorsBucket, "")
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

// dropFloors removes the floors of a run, over all document streams.
func dropFloors(ctx context.Context, s *stream.Store, run string) (dropped bool, err error) {
	keys, err := floorsKeys(ctx, s)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		there, err := dropFromCell(ctx, s, key, run)
		if err != nil {
			return dropped, err
		}
		dropped = dropped || there
	}
	return dropped, nil
}

// dropFromCell removes a run's floor from those over a document stream. What is given up stays as it is: the next Release of another run
// gives up more.
func dropFromCell(ctx context.Context, s *stream.Store, key, run string) (there bool, err error) {
	c, err := openCell[floors](ctx, s.Own(), floorsBucket, "", key, "the floor of run "+run)
	if err != nil {
		return false, err
	}
	now, _, err := c.read(ctx)
	if err != nil {
		return false, err
	}
	if _, there = now.Value.Runs[run]; !there {
		return false, nil
	}
	_, err = c.update(ctx, func(all floors) (floors, error) {
		delete(all.Runs, run)
		return all, nil
	})
	return true, err
}

// dropKey removes a key of a bucket; there is false where the bucket or the key is not there.
func dropKey(ctx context.Context, s *stream.Store, bucket, key string) (there bool, err error) {
	value, err := lastValue(ctx, s, bucket, key)
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
