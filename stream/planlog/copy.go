package planlog

import (
	"context"
	"fmt"

	"loaderd/stream"
)

// CopyKeys copies what buckets keep of a run over the document stream to other servers: its floor, with what is given up of the documents, and which of
// its checkpoints count. All of it refers to when streams were made, which copies of these say too (stream.Created). Who leads is not copied: nobody does there.
func CopyKeys(ctx context.Context, from, to *stream.Store, run string) error {
	if err := copyFloors(ctx, from, to, run); err != nil {
		return err
	}
	value, err := lastValue(ctx, from, manifestsBucket, run)
	if err != nil || len(value) == 0 {
		return err
	}
	m, err := decodeCell[manifest](value)
	if err != nil {
		return fmt.Errorf("key %s of bucket %s: %w", run, manifestsBucket, err)
	}
	c, err := openCell[manifest](ctx, to.Own(), manifestsBucket, "which checkpoints of each run count", run, "the checkpoints of run "+run)
	if err != nil {
		return err
	}
	_, err = c.update(ctx, func(manifest) (manifest, error) { return m.Value, nil })
	return err
}

// copyFloors copies a run's floor over the document stream, with what is given up.
func copyFloors(ctx context.Context, from, to *stream.Store, run string) error {
	documents, err := from.Find(ctx, "the document stream", from.Config().Name, errNoDocuments)
	if err != nil {
		return err
	}
	key := floorsKey(documents.CachedInfo())
	value, err := lastValue(ctx, from, floorsBucket, key)
	if err != nil || len(value) == 0 {
		return err
	}
	all, err := decodeCell[floors](value)
	if err != nil {
		return fmt.Errorf("key %s of bucket %s: %w", key, floorsBucket, err)
	}
	c, err := openCell[floors](ctx, to.Own(), floorsBucket, "first document that each run still needs, and the last that it reads", key, "the floor of run "+run)
	if err != nil {
		return err
	}
	_, err = c.update(ctx, func(there floors) (floors, error) {
		there.Purged = max(there.Purged, all.Value.Purged)
		if own, ok := all.Value.Runs[run]; ok {
			if there.Runs == nil {
				there.Runs = map[string]floor{}
			}
			there.Runs[run] = own
		}
		return there, nil
	})
	return err
}

// ObjectsStream is the stream in which the checkpoints of a run are kept.
func ObjectsStream(run string) string { return "OBJ_" + checkpointsPrefix + run }
