package planlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/conn"
)

// ErrNoCheckpoint says that there is no checkpoint of a name.
var ErrNoCheckpoint = errors.New("there is no such object")

// transferLimit bounds one attempt to read a checkpoint: a large one over a slow link. One to store it, whose size is known, may take as long as
// a link of slowestLink bytes a second does.
const (
	transferLimit = 2 * time.Minute
	slowestLink   = 256 << 10
)

// manifestsBucket is the key-value bucket that says of each run which of its checkpoints count.
const manifestsBucket = "loaderd_checkpoints"

// Checkpoints keeps a run's checkpoints in a JetStream object store. It implements loader.Checkpoints. Those count that the manifest names,
// a cell that knows the term of who leads. An object has a name of its own and is never written again, so that whoever deletes one that no
// manifest names, or will, does no harm, however late. A checkpoint appears whole or not at all, and its digest is verified when it is read.
//
// What a crash leaves behind each step, and what follows:
//
//	Put: chunks            chunks that no entry names            they count against the store's bound until the run's store is deleted
//	Put: object            an object that no manifest names      whoever claims next deletes it with its first Put
//	Put: manifest          the new one counts, and those that    a start takes the newest that fits the plan; whoever claims next deletes
//	                       it does not name any more remain      the others
//	Put: objects deleted   nothing to mend
//	Claim                  a term that has stored nothing        the next one has a higher term
type Checkpoints struct {
	plan     *Log
	store    *stream.Store
	bucket   jetstream.ObjectStore
	manifest *cell[manifest]
	name     string
	claimed  bool // since the last sweep
}

// manifest names the checkpoints that count, by ascending step.
type manifest struct {
	fence
	Checkpoints []loader.Stored `json:"checkpoints"`
}

// maxManifest bounds how many checkpoints can count, and the bytes of an object's name.
const (
	maxManifest   = 64
	maxObjectName = 512
)

func (m manifest) check() error {
	if len(m.Checkpoints) > maxManifest {
		return fmt.Errorf("%d checkpoints count", len(m.Checkpoints))
	}
	for _, s := range m.Checkpoints {
		if s.Name == "" || len(s.Name) > maxObjectName || strings.ContainsFunc(s.Name, func(r rune) bool { return r <= ' ' || r > '~' }) || s.Bytes < 0 {
			return fmt.Errorf("%q with %d bytes is no checkpoint", s.Name, s.Bytes)
		}
	}
	return nil
}

var _ loader.Checkpoints = (*Checkpoints)(nil)

// OpenCheckpoints opens the checkpoints of a plan's run and creates their store when it is absent.
func OpenCheckpoints(ctx context.Context, plan *Log) (*Checkpoints, error) {
	s := plan.store
	c := &Checkpoints{plan: plan, store: s, name: checkpointsPrefix + plan.run}
	var err error
	c.bucket, err = s.EnsureObjectStore(ctx, c.name, "planner checkpoints of run "+plan.run, s.Config().PlanBytes)
	if err != nil {
		return nil, err
	}
	c.manifest, err = openCell[manifest](ctx, s, manifestsBucket, "which checkpoints of each run count", plan.run, "the checkpoints of run "+plan.run)
	return c, err
}

// The client stores objects in chunks of objectChunk, unless it is told otherwise; a chunk must fit into a message beside its headers.
const (
	objectChunk = 128 << 10
	objectRoom  = 4 << 10
)

// objectName is a name that no object had before, nor will have. It tells the fence of who stores it.
func objectName(step uint64, by fence) string {
	return fmt.Sprintf("step-%020d.plan-%d.term-%d.%s", step, by.Plan, by.Term, nuid.Next())
}

// storedBy is the fence of the daemon that stored an object, the lowest for a name that no daemon gives.
func storedBy(name string) (by fence) {
	var step uint64
	if _, err := fmt.Sscanf(name, "step-%d.plan-%d.term-%d.", &step, &by.Plan, &by.Term); err != nil {
		return fence{}
	}
	return by
}

// Claim makes a term the one that stores checkpoints, and returns those that count. Of a plan that has just begun, those of an earlier plan
// do not count any more; any other plan is taken for what was restored of that one. What does not count is deleted by the first Put: a
// leader claims while readers wait, and finding out what there is takes long.
func (c *Checkpoints) Claim(ctx context.Context, term uint64, begun bool) ([]loader.Stored, error) {
	own := c.plan.fence(term)
	m, err := c.manifest.update(ctx, func(m manifest) (manifest, error) {
		if err := own.passes(m.fence); err != nil {
			return m, err
		}
		if begun && m.Plan != own.Plan {
			m.Checkpoints = nil
		}
		m.fence = own
		return m, nil
	})
	c.claimed = c.claimed || err == nil
	return m.Checkpoints, err
}

// sweep deletes the objects that a claimed manifest does not name and whose writers led before: no manifest will name them. Those of
// later leaders are not its business, even if this process sleeps in the middle.
func (c *Checkpoints) sweep(ctx context.Context, m manifest) error {
	counts := map[string]bool{}
	for _, s := range m.Checkpoints {
		counts[s.Name] = true
	}
	names, err := c.objects(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if counts[name] || !storedBy(name).before(m.fence) {
			continue
		}
		if err := c.delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Put stores the planner's state behind so many steps and returns the checkpoints that count now.
func (c *Checkpoints) Put(ctx context.Context, term, step uint64, data []byte) ([]loader.Stored, error) {
	own := c.plan.fence(term)
	put := loader.Stored{Name: objectName(step, own), Step: step, Bytes: int64(len(data))}
	sealed, err := c.plan.seal(ctx, put.Name, data)
	if err != nil {
		return nil, err
	}
	if err := c.putObject(ctx, put.Name, sealed); err != nil {
		return nil, err
	}
	var dropped []loader.Stored
	m, err := c.manifest.update(ctx, func(m manifest) (manifest, error) {
		if err := own.passes(m.fence); err != nil {
			return m, err
		}
		m.fence = own
		m.Checkpoints, dropped = loader.KeepCheckpoints(m.Checkpoints, put)
		return m, nil
	})
	switch {
	case errors.Is(err, loader.ErrDeposed):
		dropped = []loader.Stored{put}
	case err != nil: // whether it counts is unknown
		return nil, err
	}
	for _, s := range dropped {
		if err := c.delete(ctx, s.Name); err != nil {
			c.store.Log().Warn("a checkpoint that does not count is not deleted yet", "object", s.Name, "error", err)
		}
	}
	if err != nil || !c.claimed {
		return m.Checkpoints, err
	}
	if err := c.sweep(ctx, m); err != nil {
		c.store.Log().Warn("checkpoints that do not count are not deleted yet", "objects", c.name, "error", err)
	} else {
		c.claimed = false
	}
	return m.Checkpoints, nil
}

func (c *Checkpoints) putObject(ctx context.Context, name string, data []byte) error {
	limit := conn.AttemptLimit + time.Duration(len(data))*time.Second/slowestLink
	return c.store.RetryWithin(ctx, limit, fmt.Sprintf("store object %s in %s", name, c.name), func(ctx context.Context) error {
		meta := jetstream.ObjectMeta{Name: name}
		if most := c.store.Conn().MaxPayload() - objectRoom; most > 0 && most < objectChunk {
			meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(most)}
		}
		_, err := c.bucket.Put(ctx, meta, bytes.NewReader(data))
		return conn.AsFull(err)
	})
}

// Get returns a checkpoint's bytes, ErrNoCheckpoint when there is none, and an error when they are not what was stored.
func (c *Checkpoints) Get(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	began := time.Now()
	err := c.store.RetryWithin(ctx, transferLimit, fmt.Sprintf("read object %s of %s", name, c.name), func(ctx context.Context) (err error) {
		data, err = c.store.GetObject(ctx, c.name, name)
		err = asMissing(err)
		gone := errors.Is(err, conn.ErrBehind) // a part of it
		switch {
		case !gone && !errors.Is(err, ErrNoCheckpoint):
			return err
		case c.store.Clustered() && time.Since(began) < missingFor:
			return conn.Passing(err) // any of the bucket's servers answers, also one that is behind
		case gone:
			return fmt.Errorf("%w: %s", jetstream.ErrDigestMismatch, err.Error())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.plan.unseal(ctx, name, data)
}

// missingFor is for how long a cluster has to say that there is no such checkpoint, or not all of it.
const missingFor = 5 * time.Second

// List returns the checkpoints that count, by ascending step.
func (c *Checkpoints) List(ctx context.Context) ([]loader.Stored, error) {
	m, _, err := c.manifest.read(ctx)
	stored := m.Value.Checkpoints
	for i := range stored {
		stored[i].Earlier = m.Value.Plan < c.plan.fence(0).Plan
	}
	return stored, err
}

// objects are the names of all objects, whether they count or not.
func (c *Checkpoints) objects(ctx context.Context) ([]string, error) {
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

// delete removes an object. One that is not there is no error.
func (c *Checkpoints) delete(ctx context.Context, name string) error {
	return c.store.Retry(ctx, fmt.Sprintf("delete object %s of %s", name, c.name), func(ctx context.Context) error {
		if err := asMissing(c.bucket.Delete(ctx, name)); !errors.Is(err, ErrNoCheckpoint) {
			return err
		}
		return nil
	})
}

func asMissing(err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return ErrNoCheckpoint
	}
	return err
}
