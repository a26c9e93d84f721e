// Package checkpoints stores the planner's checkpoints of a run in a JetStream object store.
package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
	"loaderd/stream/planlog"
)

// ErrNotFound reports that no checkpoint of a name exists.
var ErrNotFound = errors.New("there is no such object")

// transferTimeout bounds one attempt to read a checkpoint, for a large one over a slow link. An attempt to store one,
// whose size is known, may take as long as a link of minTransferRate bytes per second needs.
const (
	transferTimeout = 2 * time.Minute
	minTransferRate = 256 << 10
)

// Bucket is the key-value bucket with the manifest of each run's checkpoints.
const Bucket = "loaderd_checkpoints"

// manifestDescription is the description of the bucket.
const manifestDescription = "which checkpoints of each run count"

// ObjectStoreName is the name of the object store of a run.
func ObjectStoreName(run string) string { return "CHECKPOINTS_" + run }

// StreamName is the name of the stream behind the object store of a run.
func StreamName(run string) string { return "OBJ_" + ObjectStoreName(run) }

// Store implements backend.Checkpoints. The checkpoints that the manifest names are valid. The manifest holds the fence
// of the leader that wrote it. An object has a unique name and is never written again: a late delete of an object that
// no manifest names, or will name, is harmless. A checkpoint appears whole or not at all, and its digest is verified
// when it is read.
//
// What a crash leaves after each step, and how it is resolved:
//
//	Put: chunks            chunks without an entry             they count against the store's bound until the run's
//	                                                           store is deleted
//	Put: object            an object that no manifest names    the next leader to claim deletes it with its first Put
//	Put: manifest          the new checkpoint is valid, and    a start uses the newest that fits the plan; the next
//	                       objects no longer named remain      leader to claim deletes the others
//	Put: objects deleted   nothing to repair
//	Claim                  a term that has stored nothing      the next term is higher
type Store struct {
	plan         *planlog.Log
	store        *stream.Store
	bucket       jetstream.ObjectStore
	manifest     *casvalue.Value[manifest]
	name         string
	sweepPending bool // since the last sweep
}

// manifest names the valid checkpoints, by ascending step.
type manifest struct {
	casvalue.Fence
	Checkpoints []backend.CheckpointInfo `json:"checkpoints"`
}

// maxManifest bounds the checkpoints of a manifest, and maxObjectName the bytes of an object's name.
const (
	maxManifest   = 64
	maxObjectName = 512
)

// Check implements casvalue.Checked.
func (m manifest) Check() error {
	if len(m.Checkpoints) > maxManifest {
		return fmt.Errorf("%d checkpoints count", len(m.Checkpoints))
	}
	for _, s := range m.Checkpoints {
		if s.Name == "" || len(s.Name) > maxObjectName || strings.ContainsFunc(s.Name, func(r rune) bool {
			return r <= ' ' || r > '~'
		}) || s.Bytes < 0 {
			return fmt.Errorf("%q with %d bytes is no checkpoint", s.Name, s.Bytes)
		}
	}
	return nil
}

var _ backend.Checkpoints = (*Store)(nil)

// Open opens the checkpoints of a plan's run and creates their object store if it does not exist.
func Open(ctx context.Context, plan *planlog.Log) (*Store, error) {
	s := plan.Store()
	c := &Store{plan: plan, store: s, name: ObjectStoreName(plan.Run())}
	var err error
	c.bucket, err = s.EnsureObjectStore(ctx, c.name, "planner checkpoints of run "+plan.Run(), s.Config().PlanBytes)
	if err != nil {
		return nil, err
	}
	c.manifest, err = openManifest(ctx, s, plan.Run())
	return c, err
}

func openManifest(ctx context.Context, s *stream.Store, run string) (*casvalue.Value[manifest], error) {
	return casvalue.Open[manifest](ctx, s, Bucket, manifestDescription, run, "the checkpoints of run "+run)
}

// The client library stores objects in chunks of objectChunkBytes by default. A chunk and its headers must fit into
// a message.
const (
	objectChunkBytes  = 128 << 10
	objectHeaderBytes = 4 << 10
)

// objectName returns a name that no other object ever has. It contains the fence of the daemon that stores the
// object.
func objectName(step uint64, by casvalue.Fence) string {
	return fmt.Sprintf("step-%020d.plan-%d.term-%d.%s", step, by.Plan, by.Term, nuid.Next())
}

// objectFence returns the fence of the daemon that stored an object, the lowest for a name that no daemon assigns.
func objectFence(name string) (by casvalue.Fence) {
	var step uint64
	if _, err := fmt.Sscanf(name, "step-%d.plan-%d.term-%d.", &step, &by.Plan, &by.Term); err != nil {
		return casvalue.Fence{}
	}
	return by
}

// Claim gives a term the right to store checkpoints and returns the valid ones. If the plan has just begun,
// checkpoints of an earlier plan become invalid. Any other plan is treated as a restored copy of the earlier one. The
// first Put deletes invalid objects, because readers wait during Claim and listing the objects takes long.
func (c *Store) Claim(ctx context.Context, term uint64, begun bool) ([]backend.CheckpointInfo, error) {
	own := c.plan.Fence(term)
	m, err := c.manifest.Update(ctx, func(m manifest) (manifest, error) {
		if err := own.Check(m.Fence); err != nil {
			return m, err
		}
		if begun && m.Plan != own.Plan {
			m.Checkpoints = nil
		}
		m.Fence = own
		return m, nil
	})
	c.sweepPending = c.sweepPending || err == nil
	return m.Checkpoints, err
}

// sweep deletes the objects that a claimed manifest does not name and that earlier leaders wrote, because no manifest
// will name them. It keeps objects of later leaders, even if this process is suspended meanwhile.
func (c *Store) sweep(ctx context.Context, m manifest) error {
	counts := map[string]bool{}
	for _, s := range m.Checkpoints {
		counts[s.Name] = true
	}
	names, err := c.listObjects(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if counts[name] || !objectFence(name).Before(m.Fence) {
			continue
		}
		if err := c.delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Put stores the planner's state after step steps and returns the checkpoints that are valid now.
func (c *Store) Put(ctx context.Context, term, step uint64, data []byte) ([]backend.CheckpointInfo, error) {
	own := c.plan.Fence(term)
	put := backend.CheckpointInfo{Name: objectName(step, own), Step: step, Bytes: int64(len(data))}
	sealed, err := c.plan.AppendMAC(ctx, put.Name, data)
	if err != nil {
		return nil, err
	}
	if err := c.putObject(ctx, put.Name, sealed); err != nil {
		return nil, err
	}
	var dropped []backend.CheckpointInfo
	m, err := c.manifest.Update(ctx, func(m manifest) (manifest, error) {
		if err := own.Check(m.Fence); err != nil {
			return m, err
		}
		m.Fence = own
		m.Checkpoints, dropped = backend.KeepCheckpoints(m.Checkpoints, put)
		return m, nil
	})
	switch {
	case errors.Is(err, fault.ErrLeadershipLost):
		dropped = []backend.CheckpointInfo{put}
	case err != nil: // its validity is unknown
		return nil, err
	}
	for _, s := range dropped {
		if err := c.delete(ctx, s.Name); err != nil {
			c.store.Log().Warn("cannot delete an outdated checkpoint yet", "object", s.Name, "error", err)
		}
	}
	if err != nil || !c.sweepPending {
		return m.Checkpoints, err
	}
	if err := c.sweep(ctx, m); err != nil {
		c.store.Log().Warn("cannot delete outdated checkpoints yet", "objects", c.name, "error", err)
	} else {
		c.sweepPending = false
	}
	return m.Checkpoints, nil
}

func (c *Store) putObject(ctx context.Context, name string, data []byte) error {
	limit := conn.AttemptTimeout + time.Duration(len(data))*time.Second/minTransferRate
	return c.store.RetryWithin(ctx, limit, fmt.Sprintf("store object %s in %s", name, c.name),
		func(ctx context.Context) error {
			meta := jetstream.ObjectMeta{Name: name}
			if most := c.store.Conn().MaxPayload() - objectHeaderBytes; most > 0 && most < objectChunkBytes {
				meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(most)}
			}
			_, err := c.bucket.Put(ctx, meta, bytes.NewReader(data))
			return conn.AsFull(err)
		})
}

// Get returns a checkpoint's bytes. It returns ErrNotFound if none exists, and another error if the bytes
// differ from those stored.
func (c *Store) Get(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	began := time.Now()
	err := c.store.RetryWithin(ctx, transferTimeout, fmt.Sprintf("read object %s of %s", name, c.name),
		func(ctx context.Context) (err error) {
			data, err = messages.GetObject(ctx, c.store.Client, c.name, name)
			err = mapNotFound(err)
			gone := errors.Is(err, conn.ErrReplicaLagging) // a part of it is missing
			switch {
			case !gone && !errors.Is(err, ErrNotFound):
				return err
			case c.store.Clustered() && time.Since(began) < missingTimeout:
				return conn.AsTransient(err) // any server of the bucket responds, also a lagging one
			case gone:
				return fmt.Errorf("%w: %s", jetstream.ErrDigestMismatch, err.Error())
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return c.plan.StripMAC(ctx, name, data)
}

// missingTimeout is how long Get retries in a cluster before it reports a checkpoint as missing or incomplete.
const missingTimeout = 5 * time.Second

// List returns the valid checkpoints, by ascending step.
func (c *Store) List(ctx context.Context) ([]backend.CheckpointInfo, error) {
	m, _, err := c.manifest.Read(ctx)
	stored := m.Value.Checkpoints
	for i := range stored {
		stored[i].FromEarlierPlan = m.Value.Plan < c.plan.Fence(0).Plan
	}
	return stored, err
}

// listObjects returns the names of all objects, valid or not.
func (c *Store) listObjects(ctx context.Context) ([]string, error) {
	var infos []*jetstream.ObjectInfo
	err := c.store.Retry(ctx, "list objects of "+c.name, func(ctx context.Context) (err error) {
		infos, err = c.bucket.List(ctx)
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			infos, err = nil, nil
		}
		return err
	})
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name
	}
	return names, err
}

// delete removes an object. A missing object is not an error.
func (c *Store) delete(ctx context.Context, name string) error {
	return c.store.Retry(ctx, fmt.Sprintf("delete object %s of %s", name, c.name), func(ctx context.Context) error {
		if err := mapNotFound(c.bucket.Delete(ctx, name)); !errors.Is(err, ErrNotFound) {
			return err
		}
		return nil
	})
}

func mapNotFound(err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return ErrNotFound
	}
	return err
}

// Newest returns the newest valid checkpoint of a plan's run, nil without one. It changes nothing.
func Newest(ctx context.Context, plan *planlog.Log) (checkpoint []byte, err error) {
	value, err := casvalue.ReadKey(ctx, plan.Store(), Bucket, plan.Run())
	if err != nil || len(value) == 0 {
		return nil, err
	}
	m, err := casvalue.Decode[manifest](value)
	if err != nil {
		return nil, fmt.Errorf("read which checkpoints of run %s count (bucket %s): %w", plan.Run(), Bucket, err)
	}
	if len(m.Value.Checkpoints) == 0 {
		return nil, nil
	}
	newest := m.Value.Checkpoints[len(m.Value.Checkpoints)-1]
	err = plan.Store().RetryWithin(ctx, transferTimeout, "read checkpoint "+newest.Name, func(ctx context.Context) error {
		objects, err := plan.Store().JetStream().ObjectStore(ctx, ObjectStoreName(plan.Run()))
		if err == nil {
			checkpoint, err = objects.GetBytes(ctx, newest.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return plan.StripMAC(ctx, newest.Name, checkpoint)
}

// Copy copies the manifest of a run's checkpoints to other servers.
func Copy(ctx context.Context, from, to *stream.Store, run string) error {
	value, err := casvalue.ReadKey(ctx, from, Bucket, run)
	if err != nil || len(value) == 0 {
		return err
	}
	m, err := casvalue.Decode[manifest](value)
	if err != nil {
		return fmt.Errorf("key %s of bucket %s: %w", run, Bucket, err)
	}
	c, err := openManifest(ctx, to.Own(), run)
	if err != nil {
		return err
	}
	_, err = c.Update(ctx, func(manifest) (manifest, error) { return m.Value, nil })
	return err
}
