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

// CopyOf reports whether a stream is an unfinished copy of one that was created at the given time.
func CopyOf(info *jetstream.StreamInfo, created time.Time) bool {
	return info.Config.Metadata[copyKey] == created.UTC().Format(time.RFC3339Nano)
}

// copyAgain is how long a cluster may keep the remains of an interrupted copy.
const copyAgain = 30 * time.Second

// CopyStream copies another store's stream, created at the given time, and replaces an unfinished copy. The copy
// stays marked until FinishCopy, and has one replica until SpreadCopy: restored messages are in no raft log of the
// cluster, and a replica that becomes leader before it has caught up empties the others.
func (s *Store) CopyStream(ctx context.Context, from *Store, name string, created time.Time,
	progress func(bytes int)) error {
	began := time.Now()
	return s.RetryWithin(ctx, copyLimit, "copy stream "+name, func(ctx context.Context) error {
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
		if conn.NameTaken(err) && time.Since(began) < copyAgain {
			return conn.Passing(errors.Join(err, s.dropRemains(ctx, name, time.Since(began))))
		}
		return conn.AsFull(err)
	})
}

// remainsAfter is how long the remains of an interrupted copy may still be written by another process.
const remainsAfter = 6 * time.Second

// dropRemains removes the remains of an interrupted copy: the name is taken, but no stream exists.
func (s *Store) dropRemains(ctx context.Context, name string, waited time.Duration) error {
	if waited < remainsAfter {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, conn.AttemptLimit)
	defer cancel()
	_, err := s.JetStream().Stream(ask, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return s.JetStream().DeleteStream(ask, name)
}

// copyLimit bounds one attempt to copy a stream.
const copyLimit = 24 * time.Hour

// dropCopy removes an unfinished copy.
func (s *Store) dropCopy(ctx context.Context, name string, created time.Time) error {
	ask, cancel := context.WithTimeout(ctx, conn.AttemptLimit)
	defer cancel()
	st, err := s.JetStream().Stream(ask, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !CopyOf(st.CachedInfo(), created) {
		return fmt.Errorf("stream %s: there is one already, and it is no unfinished copy", name)
	}
	return s.JetStream().DeleteStream(ask, name)
}

// SpreadCopy raises the replicas of a copy to those of a new stream, and waits until all of them are complete.
func (s *Store) SpreadCopy(ctx context.Context, name string) error {
	err := s.Retry(ctx, "raise the copies of stream "+name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return soon(err)
		}
		c := st.CachedInfo().Config
		return soon(s.copied(func(copies int) (err error) {
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
			return soon(err)
		}
		info := st.CachedInfo()
		if !messages.Led(info) || info.Cluster != nil && len(info.Cluster.Replicas)+1 < info.Config.Replicas {
			return errSpreading
		}
		if info.Cluster != nil {
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Lag > 0 {
					return errSpreading
				}
			}
		}
		return nil
	})
}

var errSpreading = conn.Passing(errors.New("not all servers have all of it yet"))

// FinishCopy removes the mark of an unfinished copy.
func (s *Store) FinishCopy(ctx context.Context, name string) error {
	return s.Retry(ctx, "finish the copy of stream "+name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return soon(err)
		}
		c := st.CachedInfo().Config
		if _, marked := c.Metadata[copyKey]; !marked {
			return nil
		}
		delete(c.Metadata, copyKey)
		_, err = s.JetStream().UpdateStream(ctx, c)
		return soon(err)
	})
}
