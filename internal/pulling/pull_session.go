package pulling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/objects"
	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
	"loaderd/stream/pullrecord"
)

// pullSession is one term of a puller.
//
// What a crash, or a concurrent puller, leaves:
//
//	a listing that the record does not name   unused parts
//	documents after the record's sequence     as many as the stream's end shows: the next term skips them in the objects
//	a pending batch of a deposed puller       is refused, or contains the expected documents; the next term sees the
//	                                          new end of the stream, and counts again
//	all messages purged                       the stream's end is kept
type pullSession struct {
	*Puller
	lease    backend.Lease
	stream   jetstream.Stream
	created  time.Time
	record   pullrecord.Record
	settings ReadSettings
	listing  []objects.Object
	savedAt  time.Time
}

// run lists the objects, determines the position in the stream, and continues from there.
func (f *pullSession) run(ctx context.Context) error {
	var err error
	f.settings = f.options.ReadSettings
	f.settings.MaxDocument = f.maxDocument
	if f.record.Settings != nil { // documents after the record were created with its settings
		if f.settings, err = decodeSettings(f.record.Settings); err != nil {
			return err
		}
	}
	if f.listing, err = f.readListing(ctx); err != nil {
		return err
	}
	if len(f.listing) > 0 || f.record.Complete {
		if _, err := f.listObjects(ctx); err != nil { // web addresses contain secrets, which are not recorded
			return err
		}
	}
	if err := f.resumePosition(ctx); err != nil {
		return err
	}
	f.settings = f.options.ReadSettings
	f.settings.MaxDocument = f.maxDocument
	if f.record.Settings, err = encodeSettings(f.settings); err != nil {
		return err
	}
	if !slices.Equal(f.record.From, f.Status().From) {
		if err := f.extendListing(ctx); err != nil {
			return err
		}
	}
	for {
		err := f.appendRemaining(ctx)
		if errors.Is(err, errStreamGrew) {
			f.log.Info("stream grew while documents were appended; counting them")
			err = f.resumePosition(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if f.options.Follow <= 0 {
			return f.sealStream(ctx)
		}
		f.setWaitReason("all objects are read: new ones are looked for every " + f.options.Follow.String())
		select {
		case <-time.After(f.options.Follow):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.extendListing(ctx); err != nil {
			return err
		}
	}
}

// readListing reads the listing that the record names.
func (f *pullSession) readListing(ctx context.Context) (all []objects.Object, err error) {
	for _, key := range f.record.Parts {
		raw, err := f.pulls.Part(ctx, key)
		if err != nil {
			return nil, err
		}
		var part []objects.Object
		if err := json.Unmarshal(raw, &part); err != nil {
			return nil, fmt.Errorf("the listing of stream %s cannot be read (key %s): %w", f.docs.Config().Name, key, err)
		}
		all = append(all, part...)
	}
	if len(all) != f.record.Objects {
		return nil, fmt.Errorf(
			"the listing of stream %s has %d objects where its record states %d: restore its bucket from a backup",
			f.docs.Config().Name, len(all), f.record.Objects)
	}
	return all, nil
}

// listObjects lists the objects of the patterns in order: each pattern sorted, and an object of several patterns once.
// If a listing exists, only web addresses are listed.
func (f *pullSession) listObjects(ctx context.Context) (all []objects.Object, err error) {
	seen := map[string]bool{}
	for _, pattern := range f.options.From {
		if len(f.listing) > 0 && !strings.HasPrefix(pattern, "http") {
			continue
		}
		found, err := f.stores.List(ctx, pattern)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if !seen[o.URL] {
				seen[o.URL] = true
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// extendListing appends new objects to the listing.
func (f *pullSession) extendListing(ctx context.Context) error {
	known := map[string]bool{}
	for _, o := range f.listing {
		known[o.URL] = true
	}
	listed := f.listing
	f.listing = nil
	found, err := f.listObjects(ctx)
	f.listing = listed
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(found, func(o objects.Object) bool { return known[o.URL] })
	if len(fresh) > 0 { // an incomplete data set is listed again later
		listing, err := f.openListing(slices.Concat(listed, fresh))
		if err == nil {
			err = listing.Check(ctx)
		}
		if err != nil {
			return err
		}
	}
	next := f.record
	next.Parts = slices.Clone(next.Parts)
	for rest := fresh; len(rest) > 0; {
		n := min(len(rest), maxPartObjects)
		raw, err := json.Marshal(rest[:n])
		if err != nil {
			return err
		}
		for len(raw) > pullrecord.MaxPart {
			n /= 2
			if raw, err = json.Marshal(rest[:n]); err != nil {
				return err
			}
		}
		key, err := f.pulls.AddPart(ctx, raw)
		if err != nil {
			return err
		}
		next.Parts = append(next.Parts, key)
		rest = rest[n:]
	}
	for _, o := range fresh {
		next.Bytes += o.Size
	}
	next.Objects += len(fresh)
	next.From = redactPatterns(f.options.From)
	if len(fresh) > 0 {
		next.Complete = false
		f.log.Info("listed objects", "new", len(fresh), "objects", next.Objects, "bytes", next.Bytes)
	}
	f.listing = append(slices.Clone(f.listing), fresh...)
	f.record = next
	return f.saveRecord(ctx)
}

// maxPartObjects is the maximum number of objects in a part of a listing.
const maxPartObjects = 10_000

// saveRecord writes the record.
func (f *pullSession) saveRecord(ctx context.Context) error {
	f.savedAt = time.Now()
	if err := f.pulls.Write(ctx, f.record); err != nil {
		return err
	}
	f.setStatus(f.record, "", "")
	return nil
}

// resumePosition determines the position in the stream: it is after the record by the number of documents that the
// stream's end shows.
func (f *pullSession) resumePosition(ctx context.Context) error {
	_, info, err := f.streamState(ctx)
	if err != nil {
		return err
	}
	if !stream.Created(info).Equal(f.created) {
		return errors.New("the stream was created again: it is filled from the beginning")
	}
	last := info.State.LastSeq
	switch {
	case last < f.record.Sequence:
		return fmt.Errorf("stream %s ends with document %d, and %d were put there: it was restored from an older copy, or "+
			"deleted and made again; begin under another source",
			f.docs.Config().Name, last, f.record.Sequence)
	case last == f.record.Sequence:
		return nil
	}
	from := f.record
	f.log.Info("counted documents that follow the record", "record", from.Sequence, "last", last)
	r := newObjectReader(f, from, last-from.Sequence)
	defer r.close()
	for b := range r.batches(ctx) {
		if b.err != nil {
			return b.err
		}
		if f.record = b.record; b.record.Sequence == last {
			if err := f.checkLastDocument(ctx, b.lastInput, last); err != nil {
				f.record = from
				return err
			}
			return f.saveRecord(ctx)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.record = from
	return f.foreignDocumentError(last)
}

// checkLastDocument refuses a stream whose last document is not the expected one, if that document is still stored.
func (f *pullSession) checkLastDocument(ctx context.Context, input string, last uint64) error {
	m, err := messages.Get(ctx, f.docs.Client, f.stream, last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.Header.Get(stream.HeaderInput) != input {
		return f.foreignDocumentError(last)
	}
	return nil
}

func (f *pullSession) foreignDocumentError(last uint64) error {
	return fmt.Errorf("document %d of stream %s is not from %s: another client publishes to the stream. Stop it, and "+
		"start again under another source; documents of a source are either pulled or published",
		last, f.docs.Config().Name, strings.Join(f.Status().From, ", "))
}

// appendRemaining appends the documents of all remaining objects.
func (f *pullSession) appendRemaining(ctx context.Context) error {
	if f.record.Object == len(f.listing) {
		return nil
	}
	r := newObjectReader(f, f.record, 0)
	defer r.close()
	for b := range r.batches(ctx) {
		if len(b.messages) > 0 {
			if err := f.appendBatch(ctx, b); err != nil {
				return err
			}
		}
		f.record = b.record
		f.setReadProgress(f.record, b.objectBytes)
		if b.err != nil {
			return b.err
		}
		f.setTrouble("")
		if time.Since(f.savedAt) >= recordInterval {
			if err := f.saveRecord(ctx); err != nil {
				return err
			}
			f.setReadProgress(f.record, b.objectBytes)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.saveRecord(ctx)
}

// appendBatch stores the documents of a batch after the record's sequence: all of them, possibly in several groups, or
// it returns an error. The record then covers only documents that are stored for certain.
func (f *pullSession) appendBatch(ctx context.Context, b batch) error {
	after, rest, n := f.record.Sequence, b.messages, len(b.messages)
	pauses := f.docs.Backoff()
	pause := func() error { return f.docs.Pause(ctx, min(pauses.NextBackOff(), maxFullPause), nil) }
	for len(rest) > 0 {
		if err := f.lease.Verify(ctx); err != nil {
			return err
		}
		n = min(n, len(rest))
		err := f.send(ctx, after, rest[:n])
		switch {
		case err == nil:
			after, rest, n = after+uint64(n), rest[n:], 2*n
			pauses.Reset()
			f.setWaitReason("")
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(conn.AsFull(err), conn.ErrFull):
			f.setWaitReason(
				"the stream is full: publishing continues when documents are purged (serve.retention: purge), or with a larger " +
					"stream.max_bytes")
			n = max(1, (n+1)/2)
		case conn.IsWrongLastSequence(err):
			return errStreamGrew
		case conn.IsTransient(err):
			f.log.Debug("documents may not be stored", "error", err)
			if err := pause(); err != nil {
				return err
			}
			return errStreamGrew
		default:
			return fmt.Errorf("store documents: %w", err)
		}
		if err := pause(); err != nil {
			return err
		}
	}
	return nil
}

// maxFullPause is the maximum pause before another attempt to store documents in a full stream.
const maxFullPause = time.Second

// send makes one attempt to store documents after a sequence, all or none.
func (f *pullSession) send(ctx context.Context, after uint64, documents []stream.Message) error {
	batch := make([]*nats.Msg, len(documents))
	for i, d := range documents {
		batch[i] = d.NATS()
	}
	batch[0].Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(after, 10))
	return f.docs.Attempt(ctx, sendTimeout, func(ctx context.Context) error {
		a, err := messages.Commit(ctx, f.docs.Client, false, batch...)
		if err == nil && a.Duplicate {
			err = errStreamGrew
		}
		return err
	})
}

// sendTimeout bounds the wait for a response before the stream's end is checked.
const sendTimeout = 20 * time.Second

// sealStream seals the stream after the last document of the last object.
func (f *pullSession) sealStream(ctx context.Context) error {
	last, err := f.docs.SealDocuments(ctx)
	if err != nil {
		return err
	}
	if last != f.record.Sequence {
		return f.foreignDocumentError(last)
	}
	if !f.record.Complete {
		f.record.Complete = true
		if err := f.saveRecord(ctx); err != nil {
			return err
		}
		f.log.Info("read all objects, sealed the stream", "objects", f.record.Objects, "documents",
			f.record.Documents, "last", last)
	}
	f.setStatus(f.record, "", "all objects are read")
	<-ctx.Done() // keep the lease, so that no other process starts
	return ctx.Err()
}
