// Package publish adds documents to the document stream, in order and each exactly once, through any failure of the
// connection, the server or the publisher.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/messages"
)

// Options configures a Publisher. The zero value is suitable for most uses.
type Options struct {
	// BatchMessages bounds the messages of one atomic batch: 1 to 1000, 0 means 1000 (the server's own limit).
	BatchMessages int
	// BatchBytes bounds the bytes of one atomic batch; 0 means 8 MiB. A larger single message is a separate batch.
	BatchBytes int
	// Single sends every message separately even if the stream accepts atomic batches.
	Single bool
	// Timeout limits the wait for an acknowledgement, after which the publisher reads back what happened; 0 means 10 s.
	Timeout time.Duration
	// OnWait is called with the reason when the publisher starts to wait (a full stream, a lost connection), and with ""
	// when it continues. After an error it does not continue. OnWait is called from the publisher's goroutine and must
	// not block.
	OnWait func(reason string)
	// Tracer samples documents, which are traced from here to the ranks; nil disables tracing.
	Tracer Tracer
}

// Tracer samples documents that are published.
type Tracer interface {
	// Publish returns the traceparent of a sampled document, and a function to call when the stream has it; "" and nil
	// for a document that is not sampled.
	Publish(subject, id string) (traceparent string, stored func())
}

// Committed is what a Publisher has committed so far.
type Committed struct {
	// Documents and Bytes are committed by this publisher: stored by the server and acknowledged.
	Documents int64
	Bytes     int64
	// Duplicates were not published because the stream, or the record of an earlier run, already has them.
	Duplicates int64
	// Repeated counts the Duplicates that are not this input's earlier documents, according to its record. Another
	// publisher or input published the same. FirstRepeated is the sequence of the first of them in the stream, 0 for one
	// of the same batch.
	Repeated      int64
	FirstRepeated uint64
	// LastSequence is the stream sequence of the last committed document; 0 for none.
	LastSequence uint64
	// Waited is the time spent waiting for a full stream or a lost connection; Waiting is the reason while it waits, else
	// empty.
	Waited  time.Duration
	Waiting string
}

// maxHeaderBytes is the server's limit for the headers of one message, in bytes.
const maxHeaderBytes = 1<<16 - 1

// TooLargeError is a document that the server would reject. The publisher continues without it.
type TooLargeError struct {
	// Document is the message's path, or its id.
	Document    string
	Size, Limit int64
	// Headers reports that the headers alone are too large, because of the loss or meta.
	Headers bool
}

func (e *TooLargeError) Error() string {
	if e.Headers {
		return fmt.Sprintf("document %s has %d bytes of headers, more than the %d that the server accepts: split it, "+
			"shorten its loss and meta, or publish it as a record batch, which has them in columns", e.Document, e.Size, e.Limit)
	}
	return fmt.Sprintf("document %s has %d bytes with its headers, more than the %d that the server accepts in one "+
		"message: split it, raise the server's max_payload, or skip it",
		e.Document, e.Size, e.Limit)
}

// ErrClosed means that the publisher was closed before the call.
var ErrClosed = errors.New("publisher is closed")

const (
	defaultBatchBytes = 8 << 20
	defaultAckTimeout = 10 * time.Second
	// batchHeaderBytes bounds what commit adds to a message's own headers: batch id, sequence, commit, expected sequence.
	batchHeaderBytes = 256
)

var sourcePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Publisher adds documents to the document stream, in order, each exactly once.
//
// It fills one atomic batch while the previous one is being committed, so it holds at most two batches in memory. The
// order in the stream is the order of Publish. A full stream or a lost connection makes Publish block. Publish and
// Flush may be called from several goroutines; the order is then that of the calls.
type Publisher struct {
	store      *stream.Store
	js         jetstream.JetStream
	stream     jetstream.Stream
	created    time.Time // of the stream, which distinguishes it from a later one of the same name
	source     string
	subject    string
	options    Options
	maxMessage int64 // bytes of one message with its headers

	mu        sync.Mutex // guards filling and its companions
	openBatch []entry
	openBytes int
	openIDs   map[string]struct{} // of filling

	batches chan batch
	cancel  context.CancelFunc
	done    chan struct{} // closed when the committer has ended
	err     error         // why it ended; read after done

	committer committer

	bucketMu sync.Mutex // guards kv
	kv       jetstream.KeyValue

	progressMu   sync.Mutex
	committed    Committed
	waitingSince time.Time
}

// entry is one position in the publish order: a message, or only an update of a record.
type entry struct {
	message   *stream.Message
	size      int
	duplicate bool // counted, not sent
	record    *Record
	position  *Position // of the reader, before the message; nil if it is unknown
	finish    bool      // the record's input ends here
	skipped   bool      // a position of the input without a document in the stream
	advance   bool      // the record's last sequence may advance
	follow    bool      // no document: the record follows the end of the stream
	release   bool      // no document: it no longer does
	stored    func()    // called when the stream has a traced document; else nil
}

type batch struct {
	entries []entry
	flushed chan struct{} // closed when everything up to here is committed and recorded
}

// CheckSource returns an error if source is not a valid name of a source.
func CheckSource(source string) error {
	if !sourcePattern.MatchString(source) {
		return fmt.Errorf("source name %q: want 1 to 64 letters, digits, - and _", source)
	}
	return nil
}

// New starts a publisher for the subject of one source: <subject>.<source>. It creates the stream if it does not
// exist. ctx limits only this call; Close stops the publisher.
func New(ctx context.Context, s *stream.Store, source string, o Options) (*Publisher, error) {
	if err := CheckSource(source); err != nil {
		return nil, err
	}
	if o.BatchMessages < 0 || o.BatchMessages > messages.MaxBatch {
		return nil, fmt.Errorf("batch of %d messages: want 1 to %d", o.BatchMessages, messages.MaxBatch)
	}
	if o.BatchMessages == 0 {
		o.BatchMessages = messages.MaxBatch
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = defaultBatchBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultAckTimeout
	}
	subject := s.Config().Subject + "." + source
	s, st, err := openSource(ctx, s, source)
	if err != nil {
		return nil, err
	}
	var info *jetstream.StreamInfo
	began := time.Now()
	if err := s.Retry(ctx, "read settings of stream "+s.Config().Name, func(ctx context.Context) (err error) {
		info, err = st.Info(ctx)
		return s.AsTransientAbsence(began, err)
	}); err != nil {
		return nil, err
	}
	if last, sealed := stream.Sealed(info.Config); sealed {
		return nil, fmt.Errorf("stream %s is sealed: document %d is its last one, and no run reads later ones; publish to "+
			"another source", s.Config().Name, last)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Publisher{
		store: s, js: s.JetStream(), stream: st, created: stream.Created(info),
		source: source, subject: subject, options: o,
		maxMessage: MaxMessageSize(s.Conn().MaxPayload(), info.Config),
		openIDs:    map[string]struct{}{},
		batches:    make(chan batch),
		cancel:     cancel,
		done:       make(chan struct{}),
	}
	p.committer = committer{
		p: p, atomic: info.Config.AllowAtomicPublish && !o.Single, attemptSize: o.BatchMessages,
		// A killed publisher may have left a batch in flight, so the first batch is fenced (see committer).
		last: info.State.LastSeq, uncertain: true,
	}
	go p.run(run)
	return p, nil
}

// ensureTimeout is how long a publisher tries to create the document stream before it checks again whether its source
// has a stream. Producers of an embedded server may not create streams, and the daemon may have just started.
const ensureTimeout = 5 * time.Second

// missingTimeout is how long a publisher waits for the stream of its source while other sources have streams. A
// starting daemon creates the streams one by one. Each new stream restarts the wait.
const (
	missingTimeout      = 2 * time.Second
	missingPollInterval = 100 * time.Millisecond
)

// openSource opens the stream for a source's documents.
func openSource(ctx context.Context, s *stream.Store, source string) (*stream.Store, jetstream.Stream, error) {
	var grew time.Time
	there := 0
	for {
		of, err := s.SourceOf(ctx, source)
		var none *stream.NoSourceError
		if errors.As(err, &none) {
			if len(none.Existing) > there {
				grew, there = time.Now(), len(none.Existing)
			}
			if time.Since(grew) < missingTimeout {
				select {
				case <-time.After(missingPollInterval):
				case <-ctx.Done():
				}
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		limit, cancel := context.WithTimeout(ctx, ensureTimeout)
		st, err := of.EnsureDocuments(limit)
		over := limit.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !over {
			return of, st, err
		}
	}
}

// Documents returns the store of the stream that is published to. It is that of the source, if sources have separate
// streams.
func (p *Publisher) Documents() *stream.Store { return p.store }

// Subject returns the subject of the documents.
func (p *Publisher) Subject() string { return p.subject }

// MaxMessageSize returns the largest message, headers included, that the server stores in a stream of these settings.
func MaxMessageSize(payload int64, c jetstream.StreamConfig) int64 {
	limit := payload
	if c.MaxMsgSize > 0 {
		limit = min(limit, int64(c.MaxMsgSize))
	}
	if c.MaxBytes > 0 {
		limit = min(limit, c.MaxBytes)
	}
	return limit
}

// Publish adds documents, in order; their Subject is the publisher's. It returns when they are in a batch. Flush
// waits until they are committed. Publish blocks while the stream is full or the connection is lost. A *TooLargeError
// leaves out that document and those after it in the call, and the publisher remains usable. Any other error is
// final.
func (p *Publisher) Publish(ctx context.Context, ms ...stream.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range ms {
		if err := p.enqueue(ctx, entry{message: &m}); err != nil {
			return err
		}
	}
	return nil
}

// enqueue adds e to the batch that is being filled. The caller must hold p.mu.
func (p *Publisher) enqueue(ctx context.Context, e entry) error {
	if m := e.message; m != nil {
		m.Subject = p.subject
		if p.options.Tracer != nil {
			m.Trace, e.stored = p.options.Tracer.Publish(m.Subject, m.ID)
		}
		var err error
		if e.size, err = CheckMessageSize(*m); err != nil {
			return err
		}
		if int64(e.size) > p.maxMessage {
			return &TooLargeError{Document: cmp.Or(m.Path, m.ID), Size: int64(e.size), Limit: p.maxMessage}
		}
	}
	select {
	case <-p.done:
		return p.endError()
	default:
	}
	if len(p.openBatch) > 0 && (len(p.openBatch) >= p.options.BatchMessages || p.openBytes+e.size > p.options.BatchBytes) {
		if err := p.submitBatch(ctx, nil); err != nil {
			return err
		}
	}
	if m := e.message; m != nil && m.ID != "" {
		// The server would reject the whole batch for a duplicate id.
		_, e.duplicate = p.openIDs[m.ID]
		p.openIDs[m.ID] = struct{}{}
	}
	p.openBatch = append(p.openBatch, e)
	p.openBytes += e.size
	return nil
}

// fits reports whether the server accepts a message of this size.
func (p *Publisher) fits(m stream.Message) bool {
	size, err := CheckMessageSize(m)
	return err == nil && int64(size) <= p.maxMessage
}

// submitBatch passes the filled batch to the committer, which accepts it when the previous one is committed. The caller
// must hold p.mu.
func (p *Publisher) submitBatch(ctx context.Context, flushed chan struct{}) error {
	select {
	case p.batches <- batch{p.openBatch, flushed}:
	case <-p.done:
		return p.endError()
	case <-ctx.Done():
		return fmt.Errorf("publish to %s: %w", p.subject, ctx.Err())
	}
	p.openBatch, p.openBytes = nil, 0
	clear(p.openIDs)
	return nil
}

// Flush waits until everything published so far is committed, and returns the totals.
func (p *Publisher) Flush(ctx context.Context) (Committed, error) {
	flushed := make(chan struct{})
	p.mu.Lock()
	err := p.submitBatch(ctx, flushed)
	p.mu.Unlock()
	if err != nil {
		return p.Progress(), err
	}
	select {
	case <-flushed:
		return p.Progress(), nil
	case <-p.done:
		return p.Progress(), p.endError()
	case <-ctx.Done():
		return p.Progress(), fmt.Errorf("flush to %s: %w", p.subject, ctx.Err())
	}
}

// Progress returns what is committed now.
func (p *Publisher) Progress() Committed {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	now := p.committed
	if now.Waiting != "" {
		now.Waited += time.Since(p.waitingSince)
	}
	return now
}

// Close stops the publisher. What was not flushed may or may not be committed. A record (see Resume) determines that
// at the next start.
func (p *Publisher) Close() {
	p.cancel()
	<-p.done
}

func (p *Publisher) endError() error {
	if p.err != nil {
		return p.err
	}
	return ErrClosed
}

// run commits one batch after the other.
func (p *Publisher) run(ctx context.Context) {
	defer close(p.done)
	defer p.cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-p.batches:
			if err := p.committer.commitBatch(ctx, b); err != nil {
				if !errors.Is(err, context.Canceled) {
					p.err = fmt.Errorf("publish to %s: %w", p.subject, err)
				}
				return
			}
			if b.flushed != nil {
				close(b.flushed)
			}
		}
	}
}

// CheckMessageSize returns the bytes of a document's message that the server counts against its limits. It returns a
// *TooLargeError if no server accepts its headers.
func CheckMessageSize(m stream.Message) (size int, err error) {
	size = messageSize(m.NATS())
	if head := size - len(m.Data); head > maxHeaderBytes {
		return size, &TooLargeError{Document: cmp.Or(m.Path, m.ID), Size: int64(head), Limit: maxHeaderBytes, Headers: true}
	}
	return size, nil
}

// messageSize returns what the server counts against its limits: payload and encoded headers, with room for the
// headers of a batch.
func messageSize(m *nats.Msg) int {
	n := len("NATS/1.0\r\n\r\n") + batchHeaderBytes + len(m.Data)
	for k, v := range m.Header {
		n += len(k) + len(v[0]) + len(": \r\n")
	}
	return n
}
