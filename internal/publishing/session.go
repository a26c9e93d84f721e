// Package publishing publishes the documents of files into a document stream, in order, each exactly once. The
// commits of a file are recorded next to the stream, so that publishing it again adds only new documents and
// continues where it stopped.
package publishing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// Options configure how documents are published.
type Options struct {
	Source      string // name below the stream's subject that documents are stored under: letters, digits, - and _
	Domain      string // of all documents; empty for none
	Fingerprint string // documents are token ids of the tokenizer with this fingerprint; empty: they are text

	SkipTooLarge bool // leave out and count documents above the server's limit; else they are a *RefusedError
	SkipInvalid  bool // the same for lines and rows that are not documents

	BatchBytes int   // bytes of one commit, as in publish.Options
	Unrecorded bool  // do not record commits next to the stream
	Limit      int64 // maximum number of documents; 0 is all. Requires Unrecorded, because no input is complete

	// Interleave publishes the inputs together instead of one after another. corpus.Options.Interleaved should be set.
	Interleave bool

	// OnWait is called with the reason why publishing waits (a full stream, a lost connection), and with "" when it
	// continues. It must not block.
	OnWait func(reason string)
	Tracer publish.Tracer // samples documents; nil for no tracing
}

// RefusedError is a document that ends the publishing because the options do not permit leaving it out.
type RefusedError struct {
	Reason record.Reason // TooLarge or Invalid
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// inputError ends the reading of one input. The other inputs are still read.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

// Session publishes inputs, once.
type Session struct {
	inputs          []*corpus.Input
	options         Options
	publisher       *publish.Publisher
	startedAt       time.Time
	summary         Summary
	firstInputError error // of the first failed input

	offered, offeredBytes, leftOut atomic.Int64

	currentInput  atomic.Pointer[corpus.Input] // for followed files, which are not in inputs
	finishedBytes atomic.Int64                 // bytes of the earlier files
}

// Open prepares to publish inputs. Close must be called at the end. ctx limits only this call, which waits while the
// connection is lost.
func Open(ctx context.Context, store *stream.Store, inputs []*corpus.Input, o Options) (*Session, error) {
	if o.Limit > 0 && !o.Unrecorded {
		return nil, fmt.Errorf("publish at most %d documents: want no records", o.Limit)
	}
	p := &Session{inputs: inputs, options: o, startedAt: time.Now()}
	var err error
	p.publisher, err = publish.New(ctx, store, o.Source,
		publish.Options{BatchBytes: o.BatchBytes, OnWait: o.OnWait, Tracer: o.Tracer})
	if err != nil {
		return nil, err
	}
	p.summary = newSummary(p.publisher, inputs)
	return p, nil
}

// Documents returns the store of the stream that is published to.
func (p *Session) Documents() *stream.Store { return p.publisher.Documents() }

// Close closes the publisher. Documents that are not committed by then are not published.
func (p *Session) Close() { p.publisher.Close() }

// Run publishes until everything is committed, and returns a summary, also after an error. An input that cannot be
// read to its end, or has a document that may not be left out, does not prevent the publishing of other inputs. It
// counts as incomplete and causes an error at the end. The end of ctx stops the reading of files immediately; the
// pending batch may still be committed.
func (p *Session) Run(ctx context.Context) (Summary, error) {
	if p.options.Interleave {
		return p.run(ctx, p.publishInterleaved)
	}
	return p.run(ctx, p.publishInputs)
}

func (p *Session) run(ctx context.Context, publish func(context.Context) error) (Summary, error) {
	resume := p.flushWhenIdle(ctx)
	err := publish(ctx)
	resume()
	if flushErr := p.finish(ctx); err == nil {
		err = flushErr
	}
	sum := p.summary
	done := p.publisher.Progress()
	sum.Documents, sum.Bytes, sum.Duplicates, sum.LastSequence = done.Documents, done.Bytes, done.Duplicates,
		done.LastSequence
	sum.Seconds, sum.WaitedSeconds = time.Since(p.startedAt).Seconds(), done.Waited.Seconds()
	sum.Repeated = findRepeats(context.WithoutCancel(ctx), p.publisher, done)
	if err != nil {
		sum.InputsComplete = 0 // which ones are complete is known only when everything is committed
		sum.Interrupted = ctx.Err() != nil
		return sum, err
	}
	switch {
	case sum.InputsFailed == 1:
		err = p.firstInputError
	case sum.InputsFailed > 1:
		err = fmt.Errorf("%d inputs are not read to their end, the first: %w", sum.InputsFailed, p.firstInputError)
	}
	return sum, err
}

// errLimitReached reports that the limit on documents is reached.
var errLimitReached = errors.New("the limit is reached")

func (p *Session) publishInputs(ctx context.Context) error {
	for _, in := range p.inputs {
		err := p.publishInput(ctx, in)
		switch {
		case errors.Is(err, errLimitReached):
			return nil
		case err == nil:
			p.summary.InputsComplete++
		case !p.recordInputError(err):
			return err
		}
	}
	return nil
}

// recordInputError records the error of one input; it returns false for any other error.
func (p *Session) recordInputError(err error) bool {
	var failed *inputError
	if !errors.As(err, &failed) {
		return false
	}
	if p.firstInputError == nil {
		p.firstInputError = failed.error
	}
	p.summary.InputsFailed++
	p.summary.Problems = appendError(p.summary.Problems, failed.error)
	return true
}

// stopTimeout bounds how long an interrupted publishing waits for the pending batch.
const stopTimeout = 10 * time.Second

// finish waits until everything is committed. After an interrupt it does not wait for a full stream, because the
// record contains the commits for the next publishing.
func (p *Session) finish(ctx context.Context) error {
	if ctx.Err() == nil {
		_, err := p.publisher.Flush(ctx)
		if ctx.Err() == nil {
			return err
		}
	}
	if p.publisher.Progress().Waiting != "" {
		return ctx.Err()
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_, err := p.publisher.Flush(patience)
	return err
}

// publishInput publishes one input, unless it is complete according to its record.
func (p *Session) publishInput(ctx context.Context, in *corpus.Input) error {
	to, err := p.openInput(ctx, in)
	if to == nil || err != nil {
		return err
	}
	to.continueInput()
	for d, err := range in.Documents(ctx) {
		if to.isBeforeStart(err) {
			continue
		}
		if err := to.publish(ctx, d, err); err != nil {
			return err
		}
	}
	return to.finish(ctx)
}

// publishDocument publishes or leaves out an element of an input, and reports whether it is, or was intended to be, a
// document.
func (p *Session) publishDocument(ctx context.Context, to destination, d record.Document,
	err error) (document bool, _ error) {
	var skip *record.SkipError
	switch {
	case errors.As(err, &skip):
		return p.leaveOut(ctx, to, skip.Reason, skip.Origin, err)
	case err != nil && corpus.IsTemporary(err): // the elements after it are unreachable too
		return false, err
	case err != nil:
		return false, &inputError{err}
	case len(d.Data) == 0:
		return p.leaveOut(ctx, to, reasonEmpty, d.Origin, nil)
	}
	m := Message(d, p.options.Fingerprint)
	m.Domain = p.options.Domain
	err = to.Publish(ctx, d.Origin, m)
	if large := (*publish.TooLargeError)(nil); errors.As(err, &large) {
		return p.leaveOut(ctx, to, record.TooLarge, "", err) // it already has a position in the order
	}
	if err != nil {
		return true, err
	}
	p.summary.Replaced.Add(d)
	p.summary.hasMeta = p.summary.hasMeta || d.Meta != ""
	p.offered.Add(1)
	p.offeredBytes.Add(int64(len(d.Data)))
	return true, nil
}

// CheckSize returns a *publish.TooLargeError for a document that does not fit into a message of at most limit bytes.
func CheckSize(d record.Document, o Options, limit int64) error {
	m := Message(d, o.Fingerprint)
	m.Domain = o.Domain
	m.ID = publish.DocumentID(o.Source, d.Origin, 0, nil, "") // all ids have the same length
	size, err := publish.CheckMessageSize(m)
	if err == nil && int64(size) > limit {
		err = &publish.TooLargeError{Document: d.Path, Size: int64(size), Limit: limit}
	}
	return err
}

// Message returns a document in its published form, without its subject and id. With a fingerprint its data is token
// ids of that tokenizer.
func Message(d record.Document, fingerprint string) stream.Message {
	m := stream.Message{Name: d.ID, Label: d.Label, Path: d.Path, Data: d.Data, Loss: d.Loss, Weight: d.Weight,
		Meta: d.Meta}
	if d.Parts {
		m.ContentType = stream.TypeJSON
		if d.Meta != "" { // the header for it is only for texts and tokens
			m.Data, m.Meta = slices.Concat([]byte(`{"meta":`), []byte(d.Meta), []byte(","), d.Data[1:]), ""
		}
	}
	if fingerprint != "" {
		m.ContentType, m.Tokenizer = stream.TypeTokens, fingerprint
	}
	return m
}

// leaveOut counts an element that is not published, unless it may not be left out. An origin means that it has a
// position in the order of documents.
func (p *Session) leaveOut(
	ctx context.Context, to destination, reason record.Reason, origin string, err error,
) (document bool, _ error) {
	document = reason == record.TooLarge || reason == record.Invalid
	if reason == record.TooLarge && !p.options.SkipTooLarge || reason == record.Invalid && !p.options.SkipInvalid {
		return document, &inputError{&RefusedError{reason, err}}
	}
	if reason == record.Trailing || reason == record.Damaged {
		p.summary.Warnings = appendError(p.summary.Warnings, err)
	}
	p.leftOut.Add(1)
	p.summary.Skipped[string(reason)]++
	if (reason == record.NoText || reason == record.HTML) && p.summary.NoText == nil {
		p.summary.NoText = err
	}
	if origin == "" {
		return document, nil
	}
	return document, to.Skip(ctx, origin)
}

// Progress is the progress of a publishing.
type Progress struct {
	publish.Committed       // what is committed
	Offered           int64 // documents passed to the publisher for commit
	OfferedBytes      int64 // of their content
	LeftOut           int64 // documents and files
	// bytes of the files; unknown for standard input and pipes, and no total for followed files
	Read, Total int64
}

// Progress is safe to call at any time.
func (p *Session) Progress() Progress {
	now := Progress{Committed: p.publisher.Progress(), Offered: p.offered.Load(), OfferedBytes: p.offeredBytes.Load(),
		LeftOut: p.leftOut.Load()}
	for _, in := range p.inputs {
		now.Read, now.Total = now.Read+in.BytesRead(), now.Total+in.Bytes
	}
	now.Read += p.finishedBytes.Load()
	if in := p.currentInput.Load(); in != nil {
		now.Read += in.BytesRead()
	}
	return now
}
