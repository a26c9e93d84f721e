package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/messages"
	"loaderd/stream/streamcopy"
)

// copyKey marks an unfinished copy, with the creation time of its original.
const copyKey = "loaderd.unfinished-copy"

// IsCopyOf reports whether a stream is an unfinished copy of one that was created at the given time.
func IsCopyOf(info *jetstream.StreamInfo, created time.Time) bool {
	return info.Config.Metadata[copyKey] == created.UTC().Format(time.RFC3339Nano)
}

// copyRetryTime is how long a cluster may keep the remains of an interrupted copy.
const copyRetryTime = 30 * time.Second

// CopyStream copies another store's stream, created at the given time, and replaces an unfinished copy. The copy
// stays marked until FinishCopy, and has one replica until ReplicateCopy: restored messages are in no raft log of the
// cluster, and a replica that becomes leader before it has caught up empties the others.
func (s *Store) CopyStream(ctx context.Context, from *Store, name string, created time.Time,
	progress func(bytes int)) error {
	began := time.Now()
	return s.RetryWithin(ctx, copyTimeout, "copy stream "+name, func(ctx context.Context) error {
		if err := s.dropCopy(ctx, name, created); err != nil {
			return err
		}
		err := streamcopy.Copy(ctx, from.Client, s.Client, name, func(c *jetstream.StreamConfig) {
			at := created.UTC().Format(time.RFC3339Nano)
			if c.Metadata == nil {
				c.Metadata = map[string]string{}
			}
			c.Metadata[createdKey], c.Metadata[copyKey] = at, at
			c.Replicas = 1
		}, progress)
		if conn.IsNameTaken(err) && time.Since(began) < copyRetryTime {
			return conn.AsTransient(errors.Join(err, s.dropRemains(ctx, name, time.Since(began))))
		}
		return conn.AsFull(err)
	})
}

// minRemainsAge is how long the remains of an interrupted copy may still be written by another process.
const minRemainsAge = 6 * time.Second

// dropRemains removes the remains of an interrupted copy: the name is taken, but no stream exists.
func (s *Store) dropRemains(ctx context.Context, name string, waited time.Duration) error {
	if waited < minRemainsAge {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, conn.AttemptTimeout)
	defer cancel()
	_, err := s.JetStream().Stream(ask, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return s.JetStream().DeleteStream(ask, name)
}

// copyTimeout bounds one attempt to copy a stream.
const copyTimeout = 24 * time.Hour

// dropCopy removes an unfinished copy.
func (s *Store) dropCopy(ctx context.Context, name string, created time.Time) error {
	ask, cancel := context.WithTimeout(ctx, conn.AttemptTimeout)
	defer cancel()
	st, err := s.JetStream().Stream(ask, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !IsCopyOf(st.CachedInfo(), created) {
		return fmt.Errorf("stream %s: there is one already, and it is no unfinished copy", name)
	}
	return s.JetStream().DeleteStream(ask, name)
}

// ReplicateCopy raises the replicas of a copy to those of a new stream, and waits until all of them are complete.
func (s *Store) ReplicateCopy(ctx context.Context, name string) error {
	err := s.Retry(ctx, "raise the copies of stream "+name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return transientNotFound(err)
		}
		c := st.CachedInfo().Config
		return transientNotFound(s.createReplicated(func(copies int) (err error) {
			if c.Replicas < copies {
				c.Replicas = copies
				_, err = s.JetStream().UpdateStream(ctx, c)
			}
			return err
		}))
	})
	if err != nil {
		return err
	}
	return s.Retry(ctx, "wait for the copies of stream "+name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return transientNotFound(err)
		}
		info := st.CachedInfo()
		if !messages.HasLeader(info) || info.Cluster != nil && len(info.Cluster.Replicas)+1 < info.Config.Replicas {
			return errReplicasIncomplete
		}
		if info.Cluster != nil {
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Lag > 0 {
					return errReplicasIncomplete
				}
			}
		}
		return nil
	})
}

var errReplicasIncomplete = conn.AsTransient(errors.New("not all servers have all of it yet"))

// FinishCopy removes the mark of an unfinished copy.
func (s *Store) FinishCopy(ctx context.Context, name string) error {
	return s.Retry(ctx, "finish the copy of stream "+name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return transientNotFound(err)
		}
		c := st.CachedInfo().Config
		if _, marked := c.Metadata[copyKey]; !marked {
			return nil
		}
		delete(c.Metadata, copyKey)
		_, err = s.JetStream().UpdateStream(ctx, c)
		return transientNotFound(err)
	})
}
