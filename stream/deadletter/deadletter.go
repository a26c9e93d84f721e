// Package deadletter keeps undecodable documents for inspection, as messages of a separate stream. Each of its
// messages states the problem and where the document is.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/event"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Headers of a dead letter. The original message's headers have the prefix Original-, and its payload is unchanged.
const (
	HeaderReason           = "Loaderd-Reason"            // stable name: INVALID_JSON, TOKEN_OUT_OF_RANGE, ...
	HeaderProblem          = "Loaderd-Problem"           // a sentence
	HeaderOriginalStream   = "Loaderd-Original-Stream"   // stream that still holds the message ...
	HeaderOriginalSequence = "Loaderd-Original-Sequence" // ... under this sequence
	HeaderOriginalSubject  = "Loaderd-Original-Subject"
	HeaderTruncated        = "Loaderd-Truncated" // payload or headers were left out, at least in part
	originalPrefix         = "Original-"
)

// Original is the message of a document that cannot be decoded.
type Original struct {
	Sequence         uint64
	Subject          string
	Header           nats.Header
	MalformedHeaders bool // its headers cannot be parsed
	Data             []byte
}

// Problem is the reason why a message is not a document.
type Problem struct {
	Reason   string // stable name
	Sentence string // what is wrong with this message
}

// Writer writes undecodable documents to the dead-letter stream, each once.
//
// A letter's subject ends in the original sequence. It is published on the condition that its subject is empty, which
// the server checks atomically. Reading the documents again, years later or from two daemons, therefore adds no
// duplicate. A deduplication id alone would be forgotten after the server's window. A check before the publish would
// race with other writers. A letter that is older than the document stream belongs to an earlier stream of that name,
// whose sequences are other documents. It stays, and the new letter follows it.
//
// While letters can be written, a document counts as skipped only when its letter is stored. When they cannot, the
// run continues. Later letters are queued by reference, since their documents are still in the document stream. Run
// writes them when it can.
type Writer struct {
	store   *stream.Store
	letters jetstream.Stream
	created time.Time // of the document stream
	fetch   Fetch
	wake    chan struct{}
	mu      sync.Mutex
	backlog []letterRef // that failed, or followed a failure
	failing bool        // the last attempt failed
	counts  Counts
}

// Fetch reads a message of the document stream again.
type Fetch func(ctx context.Context, sequence uint64) (Original, error)

// letterRef is a late letter by reference.
type letterRef struct {
	sequence uint64
	problem  *Problem
}

// Counts are totals since the Writer was opened.
type Counts struct {
	Stored  int64 // written, or found already written
	Failed  int64 // attempts that failed
	Waiting int   // to be written
	Dropped int64 // given up, because too many were waiting; their documents are still in the document stream
}

// maxOriginalHeaders bounds the original headers in a letter. A server accepts 64 KiB of headers in all.
const maxOriginalHeaders = 48 << 10

// maxBacklog bounds the queue of late letters.
const maxBacklog = 1 << 16

// Open opens the dead-letter stream of the document stream that was created at created. It creates the dead-letter
// stream if it does not exist.
func Open(ctx context.Context, s *stream.Store, created time.Time, fetch Fetch) (*Writer, error) {
	letters, err := s.EnsureDeadLetters(ctx)
	if err != nil {
		return nil, err
	}
	return &Writer{store: s, letters: letters, created: created, fetch: fetch, wake: make(chan struct{}, 1)}, nil
}

// Counts returns how many letters were written so far, and how many were not.
func (w *Writer) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	c.Waiting = len(w.backlog)
	return c
}

// Put stores the dead letter of m, or queues it.
func (w *Writer) Put(ctx context.Context, m Original, problem *Problem) {
	w.mu.Lock()
	broken := w.failing
	w.mu.Unlock()
	if !broken && w.recordAttempt(w.sendLetter(ctx, m, problem), m.Sequence, problem) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.backlog) == maxBacklog {
		w.counts.Dropped++
		return
	}
	w.backlog = append(w.backlog, letterRef{m.Sequence, problem})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// documentStream is the name of the document stream.
func (w *Writer) documentStream() string { return w.store.Config().Name }

// recordAttempt counts an attempt and reports whether it succeeded.
func (w *Writer) recordAttempt(err error, sequence uint64, problem *Problem) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.failing = false
		w.counts.Stored++
		level := slog.LevelDebug
		if n := w.counts.Stored; n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th, ...: visible early, without a flood
			level = slog.LevelWarn
		}
		w.store.Log().Log(context.Background(), level, "document cannot be decoded and became a dead letter",
			event.DocumentDeadLettered, "stream",
			w.documentStream(), "sequence", sequence,
			"reason", problem.Reason, "problem", problem.Sentence, "so_far", w.counts.Stored)
		return true
	}
	w.counts.Failed++
	if !w.failing {
		w.store.Log().Warn("cannot store a dead letter, trying again in the background", "stream", w.documentStream(),
			"sequence", sequence,
			"reason", problem.Reason, "problem", problem.Sentence, "error", err)
	}
	w.failing = true
	return false
}

// Run stores late letters until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			w.logBacklog()
			return
		}
		pauses := w.store.Backoff()
		for w.retry(ctx) {
			w.mu.Lock()
			pause := time.Duration(0)
			if w.failing {
				pause = pauses.NextBackOff()
			} else {
				pauses.Reset()
			}
			w.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// retry attempts the first late letter and reports whether more are queued; false if ctx has ended.
func (w *Writer) retry(ctx context.Context) bool {
	w.mu.Lock()
	if len(w.backlog) == 0 || ctx.Err() != nil {
		w.mu.Unlock()
		return false
	}
	next := w.backlog[0]
	w.backlog = w.backlog[1:]
	w.mu.Unlock()
	err := w.resend(ctx, next)
	stored := w.recordAttempt(err, next.sequence, next.problem)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !stored {
		w.backlog = append(w.backlog, next) // last in the queue, because it may be the only one that fails
	}
	return len(w.backlog) > 0
}

// resend fetches a late letter's document again and stores the letter.
func (w *Writer) resend(ctx context.Context, next letterRef) error {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptTimeout)
	defer cancel()
	m, err := w.fetch(ctx, next.sequence)
	if err != nil {
		if conn.IsTransient(err) || ctx.Err() != nil {
			return err
		}
		m = Original{Sequence: next.sequence, MalformedHeaders: true} // the letter without the message is better than none
	}
	return w.sendLetter(ctx, m, next.problem)
}

// logBacklog logs the letters that remain unwritten when the reader ends.
func (w *Writer) logBacklog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.backlog); n > 0 {
		w.store.Log().Warn("dead letters were not stored; the documents are still in the document stream", "stream",
			w.documentStream(), "letters", n,
			"first", w.backlog[0].sequence, "dropped", w.counts.Dropped)
	}
}

// minLetters is how many of the largest letters fit into the dead-letter stream, which drops its oldest letter for a
// new one.
const minLetters = 16

// sendLetter stores the letter of m unless it is already stored.
func (w *Writer) sendLetter(ctx context.Context, m Original, problem *Problem) error {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptTimeout)
	defer cancel()
	msg := newLetter(w.store.Config(), m, problem,
		min(w.store.Conn().MaxPayload(), w.store.Config().DeadLetterBytes/minLetters))
	created := w.created
	id := fmt.Sprintf("%s:%d:%s", w.documentStream(), created.UnixNano(), strconv.FormatUint(m.Sequence, 10))
	for before := uint64(0); ; {
		_, err := w.store.JetStream().PublishMsg(ctx, msg, jetstream.WithMsgID(id),
			jetstream.WithExpectLastSequencePerSubject(before))
		if err == nil {
			return nil
		}
		if !conn.IsWrongLastSequence(err) {
			return fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
		there, err := w.letters.GetLastMsgForSubject(ctx, msg.Subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // dropped since for newer letters
			before = 0
		case err != nil:
			return fmt.Errorf("read dead letter %s: %w", msg.Subject, err)
		case !there.Time.Before(created):
			return nil // stored before
		default:
			before = there.Sequence
		}
	}
}

// newLetter builds the dead letter of m in at most limit bytes.
func newLetter(c stream.Config, m Original, problem *Problem, limit int64) *nats.Msg {
	subject := m.Subject
	if subject == "" {
		subject = c.Subject
	}
	msg := nats.NewMsg(c.DeadLetterSubject(subject) + "." + strconv.FormatUint(m.Sequence, 10))
	msg.Header.Set(HeaderReason, problem.Reason)
	msg.Header.Set(HeaderProblem, problem.Sentence)
	msg.Header.Set(HeaderOriginalStream, c.Name)
	msg.Header.Set(HeaderOriginalSequence, strconv.FormatUint(m.Sequence, 10))
	msg.Header.Set(HeaderOriginalSubject, m.Subject)
	// Reserve for what the server and the client library add: ids, conditions, framing.
	room := limit - 512 - headerSize(msg.Header)
	original := originalHeaders(m.Header)
	if m.MalformedHeaders || headerSize(original) > min(room, maxOriginalHeaders) {
		msg.Header.Add(HeaderTruncated, "headers")
	} else {
		maps.Copy(msg.Header, original)
		room -= headerSize(original)
	}
	msg.Data = m.Data
	if int64(len(m.Data)) > room {
		msg.Data = m.Data[:max(room, 0)]
		msg.Header.Add(HeaderTruncated, "payload of "+strconv.Itoa(len(m.Data))+" bytes")
	}
	return msg
}

// originalHeaders returns a message's headers under names without a meaning to the server.
func originalHeaders(header nats.Header) nats.Header {
	out := make(nats.Header, len(header))
	for k, v := range header {
		if !messages.IsDirectGetHeader(k) {
			out[originalPrefix+k] = v
		}
	}
	return out
}

// headerSize returns an upper bound of a header's bytes on the wire.
func headerSize(header nats.Header) (n int64) {
	for k, values := range header {
		for _, v := range values {
			n += int64(len(k) + len(v) + len(": \r\n"))
		}
	}
	return n
}
