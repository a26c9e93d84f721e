package docstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/runconfig"
	"loaderd/packonline/similarity"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
	"loaderd/stream/tokenstore"
)

// storedDocuments are the documents of a stream in the token store.
type storedDocuments struct {
	log       *Log
	documents *tokenstore.Documents // nil without a store

	// verified reports that the newest stored document was the one of the stream when they were last compared. A stream
	// that was restored from a backup has the same creation time, and may have other documents at the sequences after the
	// backup. The documents are therefore compared before stored ones are read without their messages, and before others
	// are stored, so that all are of one state of the stream.
	verified  atomic.Bool
	verifying singleflight.Group
}

// storedFormat is the version of what determines a document besides its message, the program and documentSettings.
const storedFormat = 3

// documentSettings are the settings that determine a document.
type documentSettings struct {
	Format    int                 `json:"format"`
	Tokenizer string              `json:"tokenizer"` // fingerprint
	VocabSize int                 `json:"vocab_size"`
	Texts     bool                `json:"texts"` // whether texts are accepted
	End       int32               `json:"end"`
	Documents runconfig.Documents `json:"documents"`
	Seed      uint64              `json:"seed,omitempty"`
	Hints     *similarity.Config  `json:"hints,omitempty"`
}

// newStoredDocuments opens the documents of a log in the token store.
func newStoredDocuments(l *Log, t Tokenization) (*storedDocuments, error) {
	s := &storedDocuments{log: l}
	if t.Store == nil {
		return s, nil
	}
	settings := documentSettings{storedFormat, t.Fingerprint, t.VocabSize, t.NewEncoder != nil, t.End, t.Documents, t.Seed,
		t.Hints}
	settings.Documents.Dedupe, settings.Documents.Where = 0, "" // apply to the planner
	if settings.Documents.FIM.Rate == 0 {
		settings.Seed = 0 // no draw depends on it
	}
	encoded, err := json.Marshal(settings)
	if err == nil {
		s.documents, err = t.Store.Documents(tokenstore.Identity{Stream: l.name, Created: l.created,
			Settings: encoded})
	}
	if err != nil {
		return nil, fmt.Errorf("open the token store: %w", err)
	}
	return s, nil
}

// deleteBelow deletes documents before the first one of the stream.
func (s *storedDocuments) deleteBelow(first uint64) {
	if s.documents != nil {
		s.documents.DeleteBelow(first)
	}
}

// load returns a stored document. Its caller must compare it with its message, unless isVerified.
func (s *storedDocuments) load(sequence uint64) (document.Document, bool) {
	if s.documents == nil {
		return document.Document{}, false
	}
	x, ok := s.documents.Get(sequence)
	if ok {
		s.sample(&x)
	}
	return x.Document, ok
}

// getAll returns the stored documents of sequences, as Documents.GetAll does. Its caller must have checked isVerified.
func (s *storedDocuments) getAll(sequences []uint64, maxBytes int) (found []tokenstore.Stored, rest []uint64) {
	found, rest = s.documents.GetAll(sequences, maxBytes)
	for i := range found {
		s.sample(&found[i])
	}
	return found, rest
}

// sample sets the trace of a stored document.
func (s *storedDocuments) sample(x *tokenstore.Stored) {
	if s.log.tracer != nil {
		x.Trace = s.log.tracer.Sample(x.Traceparent, s.log.created, x.Sequence)
	}
}

// isVerified reports whether stored documents are known to be those of the stream.
func (s *storedDocuments) isVerified(ctx context.Context) bool {
	return s.documents != nil && (s.verified.Load() || s.verify(ctx))
}

// verify compares the newest stored document with the stream, and deletes all stored documents if they differ. It
// reports false if the comparison was not possible.
func (s *storedDocuments) verify(ctx context.Context) bool {
	if s.documents == nil {
		return false
	}
	done, _, _ := s.verifying.Do("", func() (any, error) {
		same, err := s.hasNewest(ctx)
		switch {
		case err != nil && conn.IsTransient(err):
			return false, nil // the next call may succeed
		case err != nil:
			s.verified.Store(false)
			return false, nil
		case !same:
			s.documents.DeleteAll()
		}
		s.verified.Store(true)
		return true, nil
	})
	return done.(bool)
}

// hasNewest reports whether the stream has the newest stored document, or there is none.
func (s *storedDocuments) hasNewest(ctx context.Context) (bool, error) {
	newest, ok := s.documents.Newest()
	if !ok {
		return true, nil
	}
	if newest.Sequence < s.log.first.Load() {
		return false, nil
	}
	m, err := s.log.getMessage(ctx, newest.Sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = s.log.checkAbsent(ctx, newest.Sequence, newest.Sequence)
		if lost := (*fault.Error)(nil); errors.As(err, &lost) && lost.Reason == fault.DocumentLost {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	return m.time.UnixNano() == newest.Stored, nil
}

// read returns a stored document without reading its message. ok is false if it is not stored, or not verified.
func (s *storedDocuments) read(ctx context.Context, sequence uint64) (d document.Document, ok bool) {
	if !s.isVerified(ctx) {
		return d, false
	}
	return s.load(sequence)
}

// Stored returns a function that returns the content of a document of l from the token store; nil without a store.
func Stored(l *Log) func(ctx context.Context, sequence uint64) (document.Content, bool) {
	if l.stored.documents == nil {
		return nil
	}
	return func(ctx context.Context, sequence uint64) (document.Content, bool) {
		d, ok := l.stored.read(ctx, sequence)
		return d.Content, ok
	}
}

// deliver calls f with each stored document, and returns the sequences of the others.
func (s *storedDocuments) deliver(ctx context.Context, sequences []uint64,
	f func(document.Document)) (others []uint64) {
	if !s.isVerified(ctx) {
		return sequences
	}
	for len(sequences) > 0 && ctx.Err() == nil {
		found, rest := s.getAll(sequences, storedBytes)
		for _, sequence := range sequences[:len(sequences)-len(rest)] {
			if len(found) > 0 && found[0].Sequence == sequence {
				f(found[0].Document)
				found = found[1:]
			} else {
				others = append(others, sequence)
			}
		}
		sequences = rest
	}
	return append(others, sequences...)
}

// documentOf returns the document of a message. It stores the document if it is not stored yet.
func (s *storedDocuments) documentOf(m *message, e *workspace) (document.Document, *deadletter.Problem) {
	if d, ok := s.load(m.sequence); ok {
		if d.Stored == m.time.UnixNano() {
			e.replaced = 0
			return d, nil
		}
		s.documents.DeleteAll() // they are of an earlier state of the stream
		s.verified.Store(true)
	}
	d, failed := s.log.makeDocument(m, e)
	// Texts with invalid UTF-8 are not stored, because each reading counts and reports them.
	if s.verified.Load() && failed == nil && d.Skip == "" && e.replaced == 0 {
		traceparent := ""
		if len(m.header) > 0 {
			traceparent = newHeaderFields(m.header).get(stream.HeaderTrace)
		}
		s.documents.Put(&d, traceparent)
	}
	return d, failed
}
