package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// recordInterval is the write interval of a record while its input is published. A read back finds what was committed
// after the last write.
const recordInterval = 250 * time.Millisecond

// followInterval is the interval at which records follow documents of other inputs. It is longer, because many records
// may do so.
const followInterval = time.Second

// Record stores how much of one input (a file, or the plain files of a folder) is in the stream. Publishing the input
// again therefore adds nothing, and a publisher that was killed continues where it stopped.
//
// State after a crash, and what the next Resume does:
//
//	before the record's first write    no document is committed: starts at the first
//	between a commit and its record    documents after the record's last sequence: found by reading back their ids
//	after the record's write           nothing to repair
type Record struct {
	p         *Publisher
	key       string
	revision  uint64
	value     recordValue
	complete  bool // before this publisher
	committed int64
	stored    int64
	changed   bool // since documents that are in the stream were published
	known     ids  // from a read back: ids of this input, and of everything else that was published to the source
	// offered counts the documents that were offered. origin and index identify the last one.
	offered  int64
	origin   string
	index    int
	mark     *Position // of the reader, nil if it has not marked any
	followed bool      // by the committer, until the record is finished or released
}

// recordValue is the stored form.
type recordValue struct {
	Version     int       `json:"version"`
	Stream      string    `json:"stream"`
	Created     time.Time `json:"stream_created"`
	Source      string    `json:"source"`
	Input       string    `json:"input"`
	Fingerprint string    `json:"fingerprint"`
	// Documents is how many first documents of the input are committed. All later documents of the input are above
	// LastSequence. All documents of the input are above FirstSequence.
	Documents     int64  `json:"documents"`
	Skipped       int64  `json:"skipped"` // of Documents: positions without a document in the stream
	FirstSequence uint64 `json:"first_sequence"`
	LastSequence  uint64 `json:"last_sequence"`
	Complete      bool   `json:"complete"`
	// Changed reports that documents of an earlier content of the input may be above FirstSequence.
	Changed bool `json:"changed,omitempty"`
	// Position is where a reader of an incomplete input can continue; nil: at its beginning.
	Position *Position `json:"position,omitempty"`
	// Session is the publisher that wrote the record.
	Session string `json:"session"`
}

const recordVersion = 1

// ErrTakenOver means that another publisher started on the same source and input.
var ErrTakenOver = errors.New("another publisher took over this input")

// ReleasedError is an input whose earlier documents can no longer be distinguished from new ones, because the stream
// no longer holds them.
type ReleasedError struct {
	Input, Why    string
	Documents     int64
	After, Oldest uint64
}

func (e *ReleasedError) Error() string {
	return fmt.Sprintf("input %s %s, and the stream no longer holds the documents that would show what is published (it "+
		"starts at %d, needed after %d; %d documents are recorded): publish it under another source name",
		e.Input, e.Why, e.Oldest, e.After, e.Documents)
}

// Resume opens the record of an input. name is the input's permanent name (an absolute path). fingerprint must change
// when its content does (sizes and times of its files).
func (p *Publisher) Resume(ctx context.Context, name, fingerprint string) (*Record, error) {
	for attempt := 1; ; attempt++ {
		r, err := p.resume(ctx, name, fingerprint)
		if !errors.Is(err, ErrTakenOver) || attempt == resumeAttempts {
			return r, err
		}
	}
}

// resumeAttempts is how often Resume tries to take over a record. An attempt fails if the record was read from a
// lagging server of a cluster, or if another publisher resumed it at the same moment.
const resumeAttempts = 5

func (p *Publisher) resume(ctx context.Context, name, fingerprint string) (*Record, error) {
	kv, err := p.recordBucket(ctx)
	if err != nil {
		return nil, err
	}
	r := &Record{p: p, key: p.recordKey(name)}
	info, err := p.streamState(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.read(ctx, kv, name); err != nil {
		return nil, err
	}
	begun := r.revision != 0 && r.value.Created.Equal(p.created)
	if !begun { // never published, or into a deleted stream
		r.value = recordValue{FirstSequence: info.State.LastSeq, LastSequence: info.State.LastSeq}
	}
	same := r.value.Fingerprint == fingerprint || r.value.Fingerprint == ""
	r.complete = r.value.Complete && same
	if begun && !r.complete {
		after, why, recorded := r.value.LastSequence, "was interrupted", r.value.Documents
		if !same {
			after, why = r.value.FirstSequence, "has changed since it was published"
			r.value.Documents, r.value.Skipped, r.value.Position = 0, 0, nil
			r.value.LastSequence, r.value.Complete, r.value.Changed = r.value.FirstSequence, false, true
		}
		if info.State.FirstSeq > after+1 && info.State.LastSeq > after {
			return nil, &ReleasedError{Input: name, Why: why, Documents: recorded, After: after, Oldest: info.State.FirstSeq}
		}
		if r.known, err = p.readBackConfirmed(ctx, after); err != nil {
			return nil, err
		}
	}
	r.changed = r.value.Changed
	r.committed, r.stored = r.value.Documents, r.value.Documents-r.value.Skipped
	r.value.Version, r.value.Stream, r.value.Created = recordVersion, p.store.Config().Name, p.created
	r.value.Source, r.value.Input, r.value.Fingerprint, r.value.Session = p.source, name, fingerprint, nuid.Next()
	if r.complete {
		return r, nil
	}
	return r, p.retryRecord(ctx, "write the record of "+name, func(ctx context.Context) error { return r.save(ctx, kv) })
}

func (p *Publisher) recordKey(input string) string {
	sum := sha256.Sum256([]byte(p.store.Config().Name + "\x00" + p.source + "\x00" + input))
	return p.source + "." + hex.EncodeToString(sum[:16])
}

// recordTimeout is how long a cluster may leave requests for records unanswered at the start of an input. Failed
// leaders are replaced within seconds.
const recordTimeout = time.Minute

// retryRecord retries until it gets a response, for at most recordTimeout.
func (p *Publisher) retryRecord(ctx context.Context, what string, ask func(ctx context.Context) error) error {
	patience, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return p.store.Retry(patience, what, ask)
}

// streamState returns the stream's state as its leader reports it.
func (p *Publisher) streamState(ctx context.Context) (info *jetstream.StreamInfo, err error) {
	err = p.retryRecord(ctx, "read state of stream "+p.store.Config().Name, func(ctx context.Context) error {
		if info, err = p.stream.Info(ctx); err == nil && !messages.HasLeader(info) {
			err = conn.AsTransient(errors.New("the server that answers knows of no leader of the stream"))
		}
		return err
	})
	return info, err
}

// read reads the stored record, if one exists.
func (r *Record) read(ctx context.Context, kv jetstream.KeyValue, name string) error {
	var stored jetstream.KeyValueEntry
	err := r.p.retryRecord(ctx, "read the record of "+name, func(ctx context.Context) (err error) {
		stored, err = kv.Get(ctx, r.key)
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.revision = stored.Revision()
	if err := json.Unmarshal(stored.Value(), &r.value); err != nil {
		return fmt.Errorf("read record of %s (key %s of bucket %s): %w", name, r.key, stream.RecordsBucket, err)
	}
	if r.value.Version > recordVersion {
		return fmt.Errorf("record of %s has version %d, this binary knows %d: use a newer loaderd", name, r.value.Version,
			recordVersion)
	}
	if v := r.value; v.Documents < 0 || v.Skipped < 0 || v.Skipped > v.Documents || v.FirstSequence > v.LastSequence ||
		v.Position != nil && !v.Position.isValid(v) {
		return fmt.Errorf("read record of %s (key %s of bucket %s): its counts contradict each other: delete the key to "+
			"publish the input again", name, r.key, stream.RecordsBucket)
	}
	return nil
}

// recordBucket opens the bucket of records, once.
func (p *Publisher) recordBucket(ctx context.Context) (jetstream.KeyValue, error) {
	p.bucketMu.Lock()
	defer p.bucketMu.Unlock()
	if p.kv != nil {
		return p.kv, nil
	}
	patience, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	kv, err := p.store.EnsureRecords(patience)
	if err != nil {
		return nil, err
	}
	p.kv = kv
	return kv, nil
}

// forgetRecords makes the next use of the bucket reopen it.
func (p *Publisher) forgetRecords() {
	p.bucketMu.Lock()
	defer p.bucketMu.Unlock()
	p.kv = nil
}

// Complete reports whether the whole input was already published and has not changed. It then need not be read.
func (r *Record) Complete() bool { return r.complete }

// Committed returns how many first documents of the input were committed before this publisher.
func (r *Record) Committed() int64 { return r.committed }

// Stored returns how many of the Committed documents are in the stream; the remaining ones were skipped.
func (r *Record) Stored() int64 { return r.stored }

// Publish adds the input's next document, unless it is already committed. Documents must be offered in the input's
// order. Publish sets the message's ID. It depends on the source, the origin (the absolute path of the
// document's file), the position among the documents of that origin, and the content.
func (r *Record) Publish(ctx context.Context, origin string, m stream.Message) error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.advance(origin) {
		r.p.committer.addProgress(0, 0, 1, 0)
		return nil
	}
	m.ID = DocumentID(r.p.source, origin, r.index, m.Data, m.Meta)
	e := entry{message: &m, record: r, position: r.mark}
	switch {
	case r.known.remove(m.ID):
		r.p.committer.addProgress(0, 0, 1, 0)
		e.message = nil
	case !r.changed && len(r.known) > 0 && r.p.fits(m):
		// The documents of an unchanged input in the stream are its first ones, and this is the first that is missing.
		r.known = nil
	}
	// The next Resume reads ids back from the record's last sequence on. While this read back holds ids of documents
	// that Publish has not been offered yet, that sequence must not advance. Otherwise the next Resume would miss them.
	e.advance = len(r.known) == 0
	err := r.p.enqueue(ctx, e)
	var large *TooLargeError
	if errors.As(err, &large) {
		e.message, e.skipped = nil, true // it keeps its position
		if err := r.p.enqueue(ctx, e); err != nil {
			return err
		}
	}
	return err
}

// Skip reserves the position of a document that is left out, so that later documents keep theirs when it is fixed. A
// document that Publish rejects with a *TooLargeError already has its position.
func (r *Record) Skip(ctx context.Context, origin string) error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.advance(origin) {
		return nil
	}
	return r.p.enqueue(ctx, entry{record: r, position: r.mark, advance: len(r.known) == 0, skipped: true})
}

// Expect declares the input's next document, which Publish adds after documents of other inputs. Once it is certain
// that the stream has no later documents of the input, the record follows the end of the stream, until Finish or
// Release, and Expect returns true. Otherwise the next Resume would read back all documents of the other inputs, and
// would fail if the stream no longer holds them.
func (r *Record) Expect(ctx context.Context, origin string, m stream.Message) (followed bool, err error) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.followed || r.complete {
		return true, nil
	}
	if len(r.known) > 0 {
		if r.changed || r.offered < r.committed {
			return false, nil // documents of this input may be in the stream
		}
		index := 0
		if r.offered > 0 && origin == r.origin {
			index = r.index + 1
		}
		m.ID = DocumentID(r.p.source, origin, index, m.Data, m.Meta)
		if _, stored := r.known[idKey(m.ID)]; stored || !r.p.fits(m) {
			return false, nil
		}
		r.known = nil // as in Publish
	}
	r.followed = true
	return true, r.p.enqueue(ctx, entry{record: r, follow: true})
}

// Release ends what Expect has begun, for an input that is not read to its end.
func (r *Record) Release(ctx context.Context) error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if !r.followed {
		return nil
	}
	r.followed = false
	return r.p.enqueue(ctx, entry{record: r, release: true})
}

// advance advances to the next position of the input and reports whether it is committed already. The caller must hold
// the publisher's lock.
func (r *Record) advance(origin string) (committed bool) {
	if r.offered == 0 || origin != r.origin {
		r.origin, r.index = origin, 0
	} else {
		r.index++
	}
	r.offered++
	return r.complete || r.offered <= r.committed
}

// Finish records that the input has no further documents. The record is complete when all of them are committed.
func (r *Record) Finish(ctx context.Context) error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.enqueue(ctx, entry{record: r, finish: true})
}

// DocumentID returns the id of the document at an index (from 0) among those of an origin. It is 32 hexadecimal
// digits that depend also on the source and on the content, including meta.
func DocumentID(source, origin string, index int, data []byte, meta string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, source+"\x00"+origin+"\x00"+strconv.Itoa(index)+"\x00")
	h.Write(data)
	if meta != "" {
		_, _ = io.WriteString(h, "\x00"+meta)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// updateRecords adds committed entries to their records.
func (c *committer) updateRecords(entries []entry) {
	for _, e := range entries {
		if e.record == nil {
			continue
		}
		if c.dirty == nil {
			c.dirty, c.followed = map[*Record]struct{}{}, map[*Record]struct{}{}
		}
		c.dirty[e.record] = struct{}{}
		value := &e.record.value
		switch {
		case e.follow:
			c.followed[e.record] = struct{}{}
			continue
		case e.release:
			delete(c.followed, e.record)
			continue
		case e.finish:
			value.Complete, value.Position, value.Changed = true, nil, false
			delete(c.followed, e.record)
		default:
			value.setPosition(e.position)
			value.Documents++
			if e.skipped {
				value.Skipped++
			}
		}
		if (e.finish || e.advance) && len(c.known) == 0 {
			value.LastSequence = max(value.LastSequence, c.last)
		}
	}
}

// recordBatch accounts for a committed batch in its records, and writes them when recordInterval has passed.
func (c *committer) recordBatch(ctx context.Context, b batch) (err error) {
	now := c.dirty == nil
	c.updateRecords(b.entries)
	c.advanceFollowed()
	now = now || b.flushed != nil || time.Since(c.savedAt) >= recordInterval
	if len(c.dirty) == 0 || !now {
		return nil
	}
	wait := c.p.newProgressBackoff()
	defer func() { wait.finish(err) }()
	for {
		err = c.p.store.Attempt(ctx, c.p.options.Timeout, c.saveRecords)
		if err == nil {
			c.savedAt = time.Now()
			return nil
		}
		if ctx.Err() != nil || !conn.IsTransient(err) && !errors.Is(conn.AsFull(err), conn.ErrFull) {
			return err
		}
		if err := wait.pause(ctx, err.Error()); err != nil {
			return err
		}
	}
}

// advanceFollowed advances the last sequence of followed records at an interval: their next documents are not
// committed yet, so they will be above it.
func (c *committer) advanceFollowed() {
	if len(c.followed) == 0 || len(c.known) > 0 || time.Since(c.followedAt) < followInterval {
		return
	}
	c.followedAt = time.Now()
	for r := range c.followed {
		if r.value.LastSequence < c.last {
			r.value.LastSequence = c.last
			c.dirty[r] = struct{}{}
		}
	}
}

func (c *committer) saveRecords(ctx context.Context) error {
	kv, err := c.p.recordBucket(ctx)
	if err != nil {
		return err
	}
	for r := range c.dirty {
		if err := r.save(ctx, kv); err != nil {
			c.p.forgetRecords() // the bucket may have been deleted
			return err
		}
		delete(c.dirty, r)
	}
	return nil
}

// save writes the record unless another publisher has written it since it was read.
func (r *Record) save(ctx context.Context, kv jetstream.KeyValue) error {
	data, err := json.Marshal(r.value)
	if err != nil {
		return fmt.Errorf("encode record of %s: %w", r.value.Input, err)
	}
	revision, err := kv.Update(ctx, r.key, data, r.revision)
	if errors.Is(err, jetstream.ErrKeyExists) || conn.IsWrongLastSequence(err) {
		stored, getErr := kv.Get(ctx, r.key)
		behind := errors.Is(getErr, jetstream.ErrKeyNotFound) || getErr == nil && stored.Revision() <= r.revision
		if behind && r.p.store.Clustered() {
			return conn.AsTransient(fmt.Errorf("write record of %s: a server of the cluster is behind: %w", r.value.Input, err))
		}
		if getErr != nil {
			return fmt.Errorf("read record of %s: %w", r.value.Input, getErr)
		}
		var other recordValue
		if json.Unmarshal(stored.Value(), &other) != nil || other.Session != r.value.Session {
			return fmt.Errorf("write record of %s: %w", r.value.Input, ErrTakenOver)
		}
		// An earlier write of this publisher, whose response was lost.
		r.revision = stored.Revision()
		revision, err = kv.Update(ctx, r.key, data, r.revision)
	}
	if err != nil {
		return fmt.Errorf("write record of %s: %w", r.value.Input, err)
	}
	r.revision = revision
	return nil
}
