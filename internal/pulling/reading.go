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
	messages []stream.Message
	behind   pullrecord.Record
	partly   int64  // bytes read of the current object
	last     string // position of the last document in its object
	err      error
}

// reading reads the documents after a record's position in a separate goroutine, one batch ahead of the consumer.
type reading struct {
	f      *filling
	at     pullrecord.Record
	skip   uint64 // number of documents to count without returning them
	count  uint64
	cancel context.CancelFunc
	done   sync.WaitGroup
	next   batch
	size   int
	out    chan batch
}

// newReading reads from a position. If skip is not zero, it only counts that many documents, and then ends.
func newReading(f *filling, at pullrecord.Record, skip uint64) *reading {
	return &reading{f: f, at: at, skip: skip, out: make(chan batch, 1), cancel: func() {}}
}

func (r *reading) close() {
	r.cancel()
	r.done.Wait()
}

// batches yields all batches. It ends early when ctx does.
func (r *reading) batches(ctx context.Context) iter.Seq[batch] {
	ctx, r.cancel = context.WithCancel(ctx)
	r.done.Go(func() {
		defer close(r.out)
		if err := r.objects(ctx); err != nil && ctx.Err() == nil {
			r.next.err = err
			r.give(ctx)
			return
		}
		r.give(ctx)
	})
	return func(yield func(batch) bool) {
		for b := range r.out {
			if ctx.Err() != nil || !yield(b) {
				return
			}
		}
	}
}

// give sends the current batch.
func (r *reading) give(ctx context.Context) {
	r.next.behind = r.at
	select {
	case r.out <- r.next:
	case <-ctx.Done():
	}
	r.next, r.size = batch{}, 0
}

// errEnough reports that all documents to count have been counted.
var errEnough = errors.New("enough")

// objects reads the remaining objects.
func (r *reading) objects(ctx context.Context) error {
	for r.at.Object < len(r.f.listing) {
		err := r.object(ctx)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		r.at.Done += r.f.listing[r.at.Object].Size
		r.at.Object, r.at.Entry, r.at.Place = r.at.Object+1, 0, pullrecord.Place{}
	}
	return nil
}

// object reads the rest of the current object.
func (r *reading) object(ctx context.Context) error {
	o := r.f.listing[r.at.Object]
	how := r.f.how
	in, err := corpus.Object(o, corpus.Options{
		Format: how.Format, TextField: how.TextField, IDField: how.IDField, Encoding: how.Encoding,
		CSV:    csvtable.Options{Quoting: how.CSVQuoting, Escape: how.CSVEscape},
		Tokens: how.Tokens, MaxDocument: how.MaxDocument, Stores: r.f.stores,
	})
	if err != nil {
		return err
	}
	in.From(corpus.Place(r.at.Place))
	passed := int64(0)
	var replaced corpus.Replaced
	defer func() {
		if replaced.Documents > 0 && r.skip == 0 {
			r.f.log.Warn("text is not UTF-8: replaced invalid bytes by U+FFFD (pull.encoding sets another encoding)",
				"object", o.URL,
				"documents", replaced.Documents, "bytes", replaced.Bytes)
		}
	}()
	for d, err := range in.Documents(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var skipped *record.SkipError
		if err != nil && (!errors.As(err, &skipped) || !how.leavesOut(skipped.Reason)) {
			return err
		}
		if passed++; in.Passed()+passed <= r.at.Entry {
			continue // covered by the record
		}
		replaced.Add(d)
		if err := r.entry(ctx, in, d, err != nil || len(d.Data) == 0); err != nil {
			return err
		}
		r.at.Place = pullrecord.Place(in.At())
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

// leavesOut reports whether an entry without a document for this reason is left out and counted, as in publish.
func (h How) leavesOut(reason record.Reason) bool {
	switch reason {
	case record.Invalid:
		return h.SkipBad
	case record.TooLarge:
		return h.SkipTooLarge
	}
	return true
}

// entry processes one entry of the current object.
func (r *reading) entry(ctx context.Context, in *corpus.Input, d record.Document, leftOut bool) error {
	index := r.at.Entry
	r.at.Entry++
	r.next.partly = in.Read()
	if leftOut {
		r.at.LeftOut++
		return nil
	}
	m := publishing.Message(d, r.f.options.Fingerprint)
	if _, err := publish.Fits(m); err != nil {
		if !r.f.how.leavesOut(record.TooLarge) {
			r.at.Entry-- // the source continues with it
			return fmt.Errorf("%s: %w", d.Origin, err)
		}
		r.at.LeftOut++
		return nil
	}
	m.Subject = Subject(r.f.docs, r.f.options.Source)
	m.ID = publish.DocumentID(r.f.options.Source, d.Origin, int(index), m.Data, m.Meta)
	m.Input = strconv.FormatInt(index, 10) + " " + d.Origin
	size := len(m.Data) + 512
	if len(r.next.messages) > 0 && (r.size+size > r.f.options.BatchBytes || len(r.next.messages) == messages.MaxCommit) {
		at := r.at
		r.at.Entry--
		r.give(ctx)
		r.at = at
	}
	r.at.Sequence++
	r.at.Documents++
	r.next.last = m.Input
	if r.skip == 0 {
		r.next.messages = append(r.next.messages, m)
		r.size += size
		return nil
	}
	if r.count++; r.count == r.skip {
		return errEnough
	}
	return nil
}
