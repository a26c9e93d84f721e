// Package docstream reads the document stream in order, with several workers that decode and tokenize. It also reads
// single documents again by sequence. Undecodable messages go to the dead-letter queue.
package docstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
	"loaderd/stream/messages"
)

// Log is the document stream of a run, read in order and by sequence. It implements document.Documents.
type Log struct {
	store      *stream.Store
	stream     jetstream.Stream
	name       string
	log        *slog.Logger
	decoder    decoder
	workspaces *workspacePool
	// transform turns the tokens of a document into those that the run uses.
	transform   transform
	workers     int
	bufferBytes int64
	// inactive is the time without requests after which the server drops a consumer.
	inactive time.Duration
	tracer   Tracer
	stored   *storedDocuments
	letters  *deadletter.Writer // nil if the log was opened read-only
	created  time.Time          // of the stream, when it was opened; another time means another stream
	identity identityCheck
	// confirmed is the server's time, in nanoseconds since 1970, of the last response that showed the stream to be that
	// one.
	confirmed atomic.Int64
	first     atomic.Uint64 // the stream's first sequence in that response
}

var _ document.Documents = (*Log)(nil)

// Open opens the document stream and its dead-letter stream. It creates them if they do not exist.
func Open(ctx context.Context, s *stream.Store, t Tokenization) (*Log, error) {
	st, err := s.EnsureDocuments(ctx)
	if err != nil {
		return nil, err
	}
	l, err := newLog(s, st, t)
	if err != nil {
		return nil, err
	}
	l.letters, err = deadletter.Open(ctx, s, l.created, func(ctx context.Context, sequence uint64) (deadletter.Original,
		error) {
		m, err := l.fetchMessage(ctx, sequence)
		if err != nil {
			return deadletter.Original{}, err
		}
		return m.toOriginal(), nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ErrNoStream means that the document stream does not exist.
var ErrNoStream = errors.New("there is no such document stream")

// OpenReadOnly opens the document stream for inspection. It creates and changes no stream, and undecodable documents
// leave no dead letters. It returns ErrNoStream if the document stream does not exist.
func OpenReadOnly(ctx context.Context, s *stream.Store, t Tokenization) (*Log, error) {
	st, err := s.Find(ctx, "stream "+s.Config().Name, s.Config().Name, ErrNoStream)
	if err != nil {
		return nil, err
	}
	return newLog(s, st, t)
}

func newLog(s *stream.Store, st jetstream.Stream, t Tokenization) (*Log, error) {
	transform, err := newTransform(t, t.maxDocumentTokens())
	if err != nil {
		return nil, err
	}
	cfg := s.Config()
	workers := workerCount(cfg.Workers)
	l := &Log{
		created: stream.Created(st.CachedInfo()),
		store:   s, stream: st, name: cfg.Name, log: s.Log(),
		decoder: decoder{fingerprint: t.Fingerprint, vocab: t.VocabSize, limit: t.maxDocumentTokens(),
			dimension: t.dimension(),
			batches:   t.Documents.MultiplePerMessage,
			columns:   tokenColumns(t.Documents), meta: metaColumns(t.Documents), ignored: ignoredColumns(t.Documents)},
		workspaces: newWorkspacePool(t, workers+1), transform: transform,
		workers: workers, bufferBytes: cfg.BufferBytes, inactive: inactiveTimeout, tracer: t.Tracer,
	}
	if l.stored, err = newStoredDocuments(l, t); err != nil {
		return nil, err
	}
	l.recordConfirmation(st.CachedInfo())
	return l, nil
}

// DeadLetters counts the dead letters of undecodable documents. The counts are zero if the log was opened read-only.
func (l *Log) DeadLetters() deadletter.Counts {
	if l.letters == nil {
		return deadletter.Counts{}
	}
	return l.letters.Counts()
}

// State returns the identity of the stream and what it holds now. If the stream was deleted or recreated since this
// log was opened, the error has the reason STREAM_MISMATCH.
func (l *Log) State(ctx context.Context) (document.StreamState, error) {
	info, err := l.streamInfo(ctx)
	if err != nil {
		return document.StreamState{}, err
	}
	state := document.StreamState{Stream: plan.Stream{Name: l.name, Created: stream.Created(info)},
		First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq,
		Bytes: int64(info.State.Bytes), MaxBytes: info.Config.MaxBytes, MaxMessage: int64(info.Config.MaxMsgSize),
		Configured: l.store.ConfiguredBound(), Free: l.store.DiskFree()}
	state.Messages = int64(info.State.Msgs)
	state.AccountBytes, state.AccountMax = l.store.AccountStorage(ctx)
	if state.MaxMessage <= 0 {
		state.MaxMessage = l.store.Conn().MaxPayload()
	}
	if last, sealed := stream.Sealed(info.Config); sealed {
		state.Sealed, state.Last = true, min(state.Last, last)
	}
	state.Problem = l.store.CheckDocuments(info.Config)
	return state, nil
}

// streamInfo requests the stream's state, and returns an error for another stream of the same name. In a cluster it
// retries transient errors for a while.
func (l *Log) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	patient, cancel := context.WithTimeout(ctx, l.stateTimeout())
	defer cancel()
	wait := l.store.Backoff()
	for {
		info, err := l.requestState(ctx)
		if err == nil || !conn.IsTransient(err) {
			return info, err
		}
		select {
		case <-patient.Done():
			return nil, err
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// requestState is one attempt of info.
func (l *Log) requestState(ctx context.Context, options ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := l.store.Attempt(ctx, l.stateRequestTimeout(), func(ctx context.Context) (err error) {
		info, err = l.stream.Info(ctx, options...)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, l.checkReplaced("it was deleted", time.Time{})
	case err == nil && !messages.HasLeader(info):
		err = errNoLeader
	}
	what := fmt.Sprintf("ask for the state of stream %q", l.name)
	if err != nil {
		if !conn.IsTransient(err) && ctx.Err() == nil { // callers retry on SOURCE_DOWN
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return nil, l.downError(what, err)
	}
	if created := stream.Created(info); !created.Equal(l.created) {
		how := fmt.Sprintf("it was deleted and created again at %s", created.UTC().Format(time.RFC3339Nano))
		return nil, l.checkReplaced(how, created)
	}
	if info.State.Msgs == 0 && info.State.FirstSeq > 1 {
		// Either all documents were purged, or the server reports a first document that it could not write.
		if err := l.store.CheckHealth(); err != nil {
			return nil, l.downError(what, conn.AsTransient(err))
		}
	}
	l.identity.reset()
	l.recordConfirmation(info)
	return info, nil
}

// downError returns the error for a stream whose servers do not respond, or whose responses are inconclusive.
func (l *Log) downError(what string, err error) error {
	return &fault.Error{Reason: fault.SourceDown, Message: what,
		Advice: "check that NATS is up and can be reached", Facts: map[string]string{"stream": l.name}, Err: err}
}

// recordConfirmation records the server's time of a response that showed the stream to be the one that was opened.
func (l *Log) recordConfirmation(info *jetstream.StreamInfo) {
	l.confirmed.Store(info.TimeStamp.UnixNano())
	l.first.Store(info.State.FirstSeq)
	l.stored.deleteBelow(info.State.FirstSeq)
}

// checkIdentity returns an error for a message of another stream of the same name. A recreated stream holds no message
// older than itself. A message that was stored before the last confirmation is therefore of our stream. For a newer
// message, own requests the stream's creation time again.
func (l *Log) checkIdentity(ctx context.Context, m *message) error {
	if m.time.UnixNano() < l.confirmed.Load() {
		return nil
	}
	_, err := l.streamInfo(ctx)
	return err
}

// Read starts a source at sequence from. If the stream cannot be reached, the error has the reason SOURCE_DOWN.
func (l *Log) Read(ctx context.Context, from uint64) (document.Source, error) {
	if from == 0 {
		return nil, fmt.Errorf("read stream %s: sequences start at 1, not 0", l.name)
	}
	info, err := l.streamInfo(ctx)
	if err == nil {
		err = l.checkCovers(ctx, info, from)
	}
	if down := (*fault.Error)(nil); conn.IsTransient(err) && !errors.As(err, &down) {
		err = l.downError("open stream "+l.name, err)
	}
	if err != nil {
		return nil, err
	}
	return newReader(l, from, info), nil
}

// Content reads the content of one document again, equal to what the source delivered. It waits while the stream
// cannot be reached, until ctx ends.
func (l *Log) Content(ctx context.Context, sequence uint64) (document.Content, error) {
	doc, err := l.refetch(ctx, sequence)
	return doc.Content, err
}

// PackingHints reads a message again and returns the lengths and packing hints of its documents, equal to what the
// source delivered. It waits as Content does.
func (l *Log) PackingHints(ctx context.Context, sequence uint64) ([]plan.Part, error) {
	doc, err := l.refetch(ctx, sequence)
	return doc.Documents(), err
}

// refetch reads a document that a source has delivered.
func (l *Log) refetch(ctx context.Context, sequence uint64) (document.Document, error) {
	if doc, ok := l.stored.read(ctx, sequence); ok {
		return doc, nil
	}
	m, err := l.fetchMessage(ctx, sequence)
	if err != nil {
		return document.Document{}, err
	}
	e := l.workspaces.get()
	defer l.workspaces.put(e)
	doc, failed := l.stored.documentOf(m, e)
	if failed != nil {
		return doc, fmt.Errorf("fetch document %d of stream %s: it is undecodable: %s: %s", sequence, l.name, failed.Reason,
			failed.Sentence)
	}
	return doc, nil
}

// Describe returns where a document came from.
func (l *Log) Describe(ctx context.Context, sequence uint64) (document.Info, error) {
	m, err := l.fetchMessage(ctx, sequence)
	if err != nil {
		return document.Info{}, err
	}
	info, _ := l.describeMessage(m)
	return info, nil
}

// describeMessage returns where the document of a message came from, and the document if it can be decoded.
func (l *Log) describeMessage(m *message) (document.Info, decodedDocument) {
	f := newHeaderFields(m.header)
	info := document.Info{Sequence: m.sequence, Subject: m.subject, Path: f.get(stream.HeaderPath),
		Domain:      f.get(stream.HeaderDomain),
		ContentType: f.get(stream.HeaderContentType), Bytes: len(m.data), Time: m.time, ID: f.id()}
	if info.ContentType == "" {
		info.ContentType = stream.TypeText
	}
	d, failed := l.decoder.decode(m.header, m.data)
	if failed == nil {
		info.ID, info.Path, info.Weight = d.id, d.path, d.weight
		for i, value := range d.meta {
			if value == nil {
				continue
			}
			if info.Meta == nil {
				info.Meta = map[string]any{}
			}
			info.Meta[l.decoder.meta[i].name] = value
		}
	}
	if label := f.get(stream.HeaderLabel); label != "" && f.get(stream.HeaderID) == "" {
		info.ID = label
	}
	return info, d
}

// ViewDocument returns a document for display: where it came from and its tokens, or why it has none.
func (l *Log) ViewDocument(ctx context.Context, sequence uint64) (document.View, error) {
	m, err := l.fetchMessage(ctx, sequence)
	if err != nil {
		return document.View{}, err
	}
	e := l.workspaces.get()
	defer l.workspaces.put(e)
	var shown document.View
	var d decodedDocument
	shown.Info, d = l.describeMessage(m)
	var failed *deadletter.Problem
	if shown.Document, failed = l.makeDocument(m, e); failed != nil {
		shown.Problem = failed.Reason + ": " + failed.Sentence
	}
	shown.IDs = documentIDs(d, shown)
	return shown, nil
}

// fetchMessage gets one message by its sequence.
func (l *Log) fetchMessage(ctx context.Context, sequence uint64) (m *message, err error) {
	if sequence == 0 {
		return nil, l.lostError(0, 0)
	}
	err = l.retry(ctx, func() error {
		m, err = l.getMessage(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return l.checkAbsent(ctx, sequence, sequence)
		}
		return err
	})
	return m, err
}

// getMessage is one attempt to read a message. In a cluster jetstream.ErrMsgNotFound is inconclusive.
func (l *Log) getMessage(ctx context.Context, sequence uint64) (*message, error) {
	raw, err := messages.Get(ctx, l.store.Client, l.stream, sequence)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, l.checkReplaced("it was deleted", time.Time{})
	}
	if err != nil {
		return nil, err
	}
	m := rawMessage(raw)
	return &m, l.checkIdentity(ctx, &m)
}

// retry calls f until it succeeds, fails permanently, or ctx ends. In the last case the error's reason is SourceDown.
func (l *Log) retry(ctx context.Context, f func() error) error {
	wait := l.store.Backoff()
	for {
		err := f()
		if err == nil || !conn.IsTransient(err) && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return l.downError(fmt.Sprintf("reach stream %s: %v", l.name, err), ctx.Err())
		}
	}
}
