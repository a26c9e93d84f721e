package pulling

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
	"loaderd/internal/publishing"
	"loaderd/stream"
	"loaderd/stream/messages"
	"loaderd/stream/publish"
	"loaderd/stream/pullrecord"
)

// headerBytes is space for the headers of a message: an id of 16 KiB, a path, a label, the object's URL.
const headerBytes = 24 << 10

// batch contains consecutive documents, and the record after them. If err is set, it ends the reading after these
// documents.
type batch struct {
	messages    []stream.Message
	record      pullrecord.Record
	objectBytes int64  // bytes read of the current object
	lastInput   string // position of the last document in its object
	err         error
}

// objectReader reads the documents after a record's position in a separate goroutine, one batch ahead of the consumer.
type objectReader struct {
	session  *pullSession
	position pullrecord.Record
	skip     uint64 // number of documents to count without returning them
	count    uint64
	cancel   context.CancelFunc
	done     sync.WaitGroup
	next     batch
	size     int
	out      chan batch
}

// newObjectReader reads from a position. If skip is not zero, it only counts that many documents, and then ends.
func newObjectReader(f *pullSession, at pullrecord.Record, skip uint64) *objectReader {
	return &objectReader{session: f, position: at, skip: skip, out: make(chan batch, 1), cancel: func() {}}
}

func (r *objectReader) close() {
	r.cancel()
	r.done.Wait()
}

// batches yields all batches. It ends early when ctx does.
func (r *objectReader) batches(ctx context.Context) iter.Seq[batch] {
	ctx, r.cancel = context.WithCancel(ctx)
	r.done.Go(func() {
		defer close(r.out)
		if err := r.readObjects(ctx); err != nil && ctx.Err() == nil {
			r.next.err = err
			r.sendBatch(ctx)
			return
		}
		r.sendBatch(ctx)
	})
	return func(yield func(batch) bool) {
		for b := range r.out {
			if ctx.Err() != nil || !yield(b) {
				return
			}
		}
	}
}

// sendBatch sends the current batch.
func (r *objectReader) sendBatch(ctx context.Context) {
	r.next.record = r.position
	select {
	case r.out <- r.next:
	case <-ctx.Done():
	}
	r.next, r.size = batch{}, 0
}

// errAllCounted reports that all documents to count have been counted.
var errAllCounted = errors.New("enough")

// readObjects reads the remaining objects.
func (r *objectReader) readObjects(ctx context.Context) error {
	listing, err := r.session.openListing(r.session.listing)
	if err != nil {
		return err
	}
	for r.position.Object < len(r.session.listing) {
		err := r.readObject(ctx, listing)
		if errors.Is(err, errAllCounted) {
			return nil
		}
		if err != nil {
			return err
		}
		r.position.BytesRead += r.session.listing[r.position.Object].Size
		r.position.Object, r.position.Entry, r.position.Position = r.position.Object+1, 0, pullrecord.ObjectPosition{}
	}
	return nil
}

// openListing returns a listing to read with the session's settings.
func (f *pullSession) openListing(all []objects.Object) (*corpus.Listing, error) {
	how := f.settings
	return corpus.NewListing(all, corpus.Options{
		Format: how.Format, TextField: how.TextField, IDField: how.IDField, Encoding: how.Encoding,
		CSV:    csvtable.Options{Quoting: how.CSVQuoting, Escape: how.CSVEscape},
		Tokens: how.Tokens, MaxDocument: how.MaxDocument, Stores: f.stores,
	})
}

// readObject reads the rest of the current object.
func (r *objectReader) readObject(ctx context.Context, listing *corpus.Listing) error {
	o := r.session.listing[r.position.Object]
	how := r.session.settings
	in, err := listing.Open(ctx, r.position.Object)
	if in == nil || err != nil {
		return err
	}
	in.StartAt(corpus.Position(r.position.Position))
	passed := int64(0)
	var replaced corpus.Replacements
	defer func() {
		if replaced.Documents > 0 && r.skip == 0 {
			r.session.log.Warn("text is not UTF-8: replaced invalid bytes by U+FFFD (pull.encoding sets another encoding)",
				"object", o.URL,
				"documents", replaced.Documents, "bytes", replaced.Bytes)
		}
	}()
	for d, err := range in.Documents(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var skipped *record.SkipError
		if err != nil && (!errors.As(err, &skipped) || !how.canSkip(skipped.Reason)) {
			return err
		}
		if passed++; in.SkippedEntries()+passed <= r.position.Entry {
			continue // covered by the record
		}
		replaced.Add(d)
		if err := r.readEntry(ctx, in, d, err != nil || len(d.Data) == 0); err != nil {
			return err
		}
		r.position.Position = pullrecord.ObjectPosition(in.Position())
	}
	return nil
}

// Subject returns the subject of a source's documents in the stream of a store.
func Subject(docs *stream.Store, source string) string {
	c := docs.Config()
	if c.Source != "" { // the source has a separate stream
		return c.Subject
	}
	return c.Subject + "." + source
}

// canSkip reports whether an entry without a document for this reason is left out and counted, as in publish.
func (h ReadSettings) canSkip(reason record.Reason) bool {
	switch reason {
	case record.Invalid:
		return h.SkipInvalid
	case record.TooLarge:
		return h.SkipTooLarge
	}
	return true
}

// readEntry processes one entry of the current object.
func (r *objectReader) readEntry(ctx context.Context, in *corpus.Input, d record.Document, leftOut bool) error {
	index := r.position.Entry
	r.position.Entry++
	r.next.objectBytes = in.BytesRead()
	if leftOut {
		r.position.LeftOut++
		return nil
	}
	m := publishing.Message(d, r.session.options.Fingerprint)
	if _, err := publish.CheckMessageSize(m); err != nil {
		if !r.session.settings.canSkip(record.TooLarge) {
			r.position.Entry-- // the source continues with it
			return fmt.Errorf("%s: %w", d.Origin, err)
		}
		r.position.LeftOut++
		return nil
	}
	m.Subject = Subject(r.session.docs, r.session.options.Source)
	m.ID = publish.DocumentID(r.session.options.Source, d.Origin, int(index), m.Data, m.Meta)
	m.Input = strconv.FormatInt(index, 10) + " " + d.Origin
	size := len(m.Data) + 512
	if len(r.next.messages) > 0 && (r.size+size > r.session.options.BatchBytes ||
		len(r.next.messages) == messages.MaxBatch) {
		at := r.position
		r.position.Entry--
		r.sendBatch(ctx)
		r.position = at
	}
	r.position.Sequence++
	r.position.Documents++
	r.next.lastInput = m.Input
	if r.skip == 0 {
		r.next.messages = append(r.next.messages, m)
		r.size += size
		return nil
	}
	if r.count++; r.count == r.skip {
		return errAllCounted
	}
	return nil
}
