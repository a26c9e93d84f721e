// Package pullrecord stores how far a document stream is filled from external objects.
package pullrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/lease"
)

// Bucket is the key-value bucket with the record of each document stream.
const Bucket = "loaderd_pulls"

// Record is how far a document stream is filled with documents of external objects.
//
// The objects are in a listing that changes only at its end, and every document has a position there. The document at
// a sequence of the stream is therefore a function of this record alone: Sequence is followed by the documents after
// Object and Entry, one per sequence. An append names the sequence that it follows, so the document is the right one
// even if the puller has lost its lease. The end of the stream, which survives the purge of all messages, shows how
// many documents were appended since the record was written.
type Record struct {
	// Created is when the document stream was created. A later one of the same name is filled from the beginning.
	Created time.Time `json:"stream_created"`
	// From holds the patterns that were listed last, without secrets. How holds the settings by which objects become
	// documents.
	From     []string        `json:"from"`
	Settings json.RawMessage `json:"how"`
	// Parts holds the keys of the listing's parts, in order. Objects and Bytes are their totals.
	Parts   []string `json:"parts"`
	Objects int      `json:"objects"`
	Bytes   int64    `json:"bytes"`
	// Sequence is that of a document in the stream, or of the stream's end before the first document. Object (from 0)
	// and Entry are how many objects, and entries of the next one, precede the document that follows it. Entries are
	// documents and those that were left out.
	Sequence uint64 `json:"sequence"`
	Object   int    `json:"object"`
	Entry    int64  `json:"entry"`
	// Position is where reading of that object continues, at or before Entry. It is an optimization: without it the object
	// is read from its beginning.
	Position ObjectPosition `json:"place,omitzero"`
	// Documents, LeftOut and Done (bytes of the objects that are read completely) count up to there.
	Documents int64 `json:"documents"`
	LeftOut   int64 `json:"left_out"`
	BytesRead int64 `json:"done_bytes"`
	// Complete is set when all objects are read, and the stream is sealed.
	Complete bool `json:"complete"`
	// Term counts the pullers; a write of a lower term is rejected. Puller is the name of the process with this term.
	Term   uint64 `json:"term"`
	Puller string `json:"puller"`
	// Trouble is why no document is appended, empty while documents are appended.
	Trouble string `json:"trouble,omitempty"`
}

// ObjectPosition is a position in an object: Entries entries and Line lines are before byte Offset.
type ObjectPosition struct {
	Entries int64 `json:"entries"`
	Offset  int64 `json:"offset"`
	Line    int64 `json:"line"`
}

// isValidFor reports whether the place can be that of an entry, or before it.
func (p ObjectPosition) isValidFor(entry int64) bool {
	return p.Entries >= 0 && p.Entries <= entry && p.Offset >= 0 && p.Line >= 0
}

const (
	// maxParts bounds a listing.
	maxParts = 100_000
	// MaxPart is the largest size of a part of a listing, in bytes.
	MaxPart = 4 << 20
)

// Check returns an error for a record that no puller writes.
func (p Record) Check() error {
	if p.Object < 0 || p.Entry < 0 || p.Objects < 0 || p.Object > p.Objects || p.Documents < 0 ||
		len(p.Parts) > maxParts || !p.Position.isValidFor(p.Entry) {
		return errors.New("its counts contradict each other")
	}
	return nil
}

// Store reads and writes the record of one document stream.
type Store struct {
	record *casvalue.Value[Record]
	kv     jetstream.KeyValue
	store  *stream.Store
	docs   *stream.Store
	self   lease.LeaderInfo
}

// Open opens the record of the document stream of a store, for a process that may fill it.
func Open(ctx context.Context, docs *stream.Store, self lease.LeaderInfo) (*Store, error) {
	own := docs.Own()
	kv, err := own.EnsureKeyValue(ctx, Bucket, "from where document streams are filled, and how far")
	if err != nil {
		return nil, err
	}
	name := docs.Config().Name
	record, err := casvalue.Open[Record](ctx, own, Bucket, "", name, "how far stream "+name+" is filled")
	if err != nil {
		return nil, err
	}
	return &Store{record: record, kv: kv, store: own, docs: docs, self: self}, nil
}

// Elector makes this process a candidate to fill the stream, which one process at a time does.
func (p *Store) Elector(ctx context.Context) (*lease.Elector, error) {
	return lease.NewElector(ctx, p.docs, LeaseName(p.docs.Config().Name), p.self)
}

// LeaseName is the name of the lease of the process that fills a document stream.
func LeaseName(stream string) string { return "pull." + stream }

// Read returns the record, or the zero value if none exists.
func (p *Store) Read(ctx context.Context) (Record, error) {
	v, _, err := p.record.Read(ctx)
	return v.Value, err
}

// BeginTerm begins a term for this process, of a stream that was created at created and ends at sequence last.
func (p *Store) BeginTerm(ctx context.Context, created time.Time, last uint64) (Record, error) {
	return p.record.Update(ctx, func(stored Record) (Record, error) {
		if !stored.Created.Equal(created) {
			stored = Record{Created: created, Sequence: last, Term: stored.Term}
		}
		stored.Term++
		stored.Puller = p.self.Name()
		return stored, nil
	})
}

// Write replaces the record by one of the same term. It returns fault.ErrLeadershipLost when a later term has begun.
func (p *Store) Write(ctx context.Context, to Record) error {
	_, err := p.record.Update(ctx, func(stored Record) (Record, error) {
		if stored.Term != to.Term || !stored.Created.Equal(to.Created) {
			return to, fmt.Errorf("%w: %s fills the stream", fault.ErrLeadershipLost, stored.Puller)
		}
		return to, nil
	})
	return err
}

// AddPart stores a part of a listing and returns its key. It counts once the record names it.
func (p *Store) AddPart(ctx context.Context, part []byte) (key string, err error) {
	key = p.docs.Config().Name + ".objects." + nuid.Next()
	err = p.store.Retry(ctx, "write a listing for stream "+p.docs.Config().Name, func(ctx context.Context) error {
		_, err := p.kv.Put(ctx, key, part)
		return err
	})
	return key, err
}

// Part returns a part of the listing.
func (p *Store) Part(ctx context.Context, key string) (part []byte, err error) {
	err = p.store.Retry(ctx, "read a listing of stream "+p.docs.Config().Name, func(ctx context.Context) error {
		e, err := p.kv.Get(ctx, key)
		if err == nil {
			part = e.Value()
		}
		return err
	})
	return part, err
}
