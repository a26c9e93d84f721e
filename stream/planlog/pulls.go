package planlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader"
	"loaderd/stream"
)

// pullsBucket holds by document stream what it is filled from, and how far.
const pullsBucket = "loaderd_pulls"

// Pulled is how far a document stream is filled with documents of objects elsewhere.
//
// The objects are in a listing that does not change but at its end, and every document has its place there. So what stands under a sequence of the stream
// is a function of this record alone: behind Sequence come the documents behind Object and Entry, one a sequence. Who appends names the sequence that
// it follows; whoever that is, a puller that was deposed too, the document is the right one. And the end of the stream, which survives the
// purge of all messages, tells how many documents came since the record was written.
type Pulled struct {
	// Created is when the document stream was made: a later one of the same name is filled from the beginning.
	Created time.Time `json:"stream_created"`
	// From are the patterns that were listed last, without secrets; How are the settings by which objects become documents.
	From []string        `json:"from"`
	How  json.RawMessage `json:"how"`
	// Parts are the keys of the listing's parts, in order. Objects and Bytes are what they hold.
	Parts   []string `json:"parts"`
	Objects int      `json:"objects"`
	Bytes   int64    `json:"bytes"`
	// Sequence is that of a document in the stream, or of what was there before the first. Object (from 0) and Entry are how many objects, and entries of
	// the next one, lie before the document that follows it; entries are documents and what was left out.
	Sequence uint64 `json:"sequence"`
	Object   int    `json:"object"`
	Entry    int64  `json:"entry"`
	// Place is where that object is read on, at or before Entry. It saves reading: without it the object is read from its beginning.
	Place Place `json:"place,omitzero"`
	// Documents, LeftOut and Done (bytes of the objects that are read to their ends) up to there.
	Documents int64 `json:"documents"`
	LeftOut   int64 `json:"left_out"`
	Done      int64 `json:"done_bytes"`
	// Complete says that all objects are read, and the stream is sealed.
	Complete bool `json:"complete"`
	// Term counts those who have pulled; what one of a lower term writes is refused. Puller is its holder.
	Term   uint64 `json:"term"`
	Puller string `json:"puller"`
	// Trouble says why nothing comes, empty while all is well.
	Trouble string `json:"trouble,omitempty"`
}

// Place is where Entries of an object, and Line lines, lie before byte Offset of it.
type Place struct {
	Entries int64 `json:"entries"`
	Offset  int64 `json:"offset"`
	Line    int64 `json:"line"`
}

// before says whether the place can be that of an entry, or lie before it.
func (p Place) before(entry int64) bool {
	return p.Entries >= 0 && p.Entries <= entry && p.Offset >= 0 && p.Line >= 0
}

const (
	// maxParts bounds a listing.
	maxParts = 100_000
	// MaxPart is how large a part of a listing may be.
	MaxPart = 4 << 20
)

// check refuses what no puller writes.
func (p Pulled) check() error {
	if p.Object < 0 || p.Entry < 0 || p.Objects < 0 || p.Object > p.Objects || p.Documents < 0 || len(p.Parts) > maxParts || !p.Place.before(p.Entry) {
		return errors.New("its counts contradict each other")
	}
	return nil
}

// Pulls is the record of one document stream.
type Pulls struct {
	cell   *cell[Pulled]
	kv     jetstream.KeyValue
	store  *stream.Store
	docs   *stream.Store
	holder Holder
}

// OpenPulls opens the record of the document stream of a store, for a process that may fill it.
func OpenPulls(ctx context.Context, docs *stream.Store, holder Holder) (*Pulls, error) {
	own := docs.Own()
	kv, err := own.EnsureKeyValue(ctx, pullsBucket, "from where document streams are filled, and how far")
	if err != nil {
		return nil, err
	}
	name := docs.Config().Name
	c, err := openCell[Pulled](ctx, own, pullsBucket, "", name, "how far stream "+name+" is filled")
	if err != nil {
		return nil, err
	}
	return &Pulls{cell: c, kv: kv, store: own, docs: docs, holder: holder}, nil
}

// Candidate makes this process one of those that may fill the stream: one at a time does.
func (p *Pulls) Candidate(ctx context.Context) (*Leads, error) {
	return openLeads(ctx, p.docs, pullLead(p.docs.Config().Name), p.holder)
}

// pullLead is the key under which it stands who fills a document stream.
func pullLead(stream string) string { return "pull." + stream }

// Read returns the record, the zero value where there is none.
func (p *Pulls) Read(ctx context.Context) (Pulled, error) {
	v, _, err := p.cell.read(ctx)
	return v.Value, err
}

// Take begins a term for this process, of a stream that was made at a time and ends at a sequence now.
func (p *Pulls) Take(ctx context.Context, created time.Time, last uint64) (Pulled, error) {
	return p.cell.update(ctx, func(there Pulled) (Pulled, error) {
		if !there.Created.Equal(created) {
			there = Pulled{Created: created, Sequence: last, Term: there.Term}
		}
		there.Term++
		there.Puller = p.holder.Name()
		return there, nil
	})
}

// Write replaces the record by one of the same term. It returns loader.ErrDeposed when a later term has begun.
func (p *Pulls) Write(ctx context.Context, to Pulled) error {
	_, err := p.cell.update(ctx, func(there Pulled) (Pulled, error) {
		if there.Term != to.Term || !there.Created.Equal(to.Created) {
			return to, fmt.Errorf("%w: %s fills the stream", loader.ErrDeposed, there.Puller)
		}
		return to, nil
	})
	return err
}

// AddPart stores a part of a listing and returns its key. It counts once the record names it.
func (p *Pulls) AddPart(ctx context.Context, part []byte) (key string, err error) {
	key = p.docs.Config().Name + ".objects." + nuid.Next()
	err = p.store.Retry(ctx, "write a listing for stream "+p.docs.Config().Name, func(ctx context.Context) error {
		_, err := p.kv.Put(ctx, key, part)
		return err
	})
	return key, err
}

// Part returns a part of the listing.
func (p *Pulls) Part(ctx context.Context, key string) (part []byte, err error) {
	err = p.store.Retry(ctx, "read a listing of stream "+p.docs.Config().Name, func(ctx context.Context) error {
		e, err := p.kv.Get(ctx, key)
		if err == nil {
			part = e.Value()
		}
		return err
	})
	return part, err
}
