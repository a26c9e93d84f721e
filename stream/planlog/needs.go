package planlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	older := map[Need]uint64{} // what older binaries recorded counts for runs that have no floor in a cell
	for _, key := range keys {
		value, err := lastValue(ctx, s, floorsBucket, key)
		if err != nil {
			return nil, err
		}
		name, _, isCell := strings.Cut(key, "/")
		switch {
		case len(value) == 0: // deleted
		case isCell:
			cell, err := decodeCell[floors](value)
			if err != nil {
				return nil, fmt.Errorf("key %s of bucket %s: %w", key, floorsBucket, err)
			}
			for run, floor := range cell.Value.Runs {
				all = append(all, Need{name, run, floor.From, floor.End})
			}
		default:
			name, run, _ := strings.Cut(key, ".")
			if strings.HasSuffix(run, endKey) {
				continue
			}
			if older[Need{Stream: name, Run: run}], err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return nil, fmt.Errorf("key %s of bucket %s: %q is no sequence", key, floorsBucket, value)
			}
		}
	}
	for _, n := range all {
		delete(older, Need{Stream: n.Stream, Run: n.Run})
	}
	for n, from := range older {
		n.From = from
		all = append(all, n)
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

// dropFloors removes the floors and ends of a run, over all document streams.
func dropFloors(ctx context.Context, s *stream.Store, run string) (dropped bool, err error) {
	keys, err := floorsKeys(ctx, s)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		there := false
		if strings.Contains(key, "/") {
			there, err = dropFromCell(ctx, s, key, run)
		} else if _, of, _ := strings.Cut(key, "."); of == run || of == run+endKey {
			there, err = dropKey(ctx, s, floorsBucket, key)
		}
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
