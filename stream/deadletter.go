package stream

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

	"loaderd/stream/conn"
)

// Headers of a dead letter. The original message's own headers come with the prefix Original-, its payload as it was.
const (
	HeaderReason           = "Loaderd-Reason"            // stable name: BAD_JSON, TOKEN_OUT_OF_RANGE, ...
	HeaderProblem          = "Loaderd-Problem"           // a sentence
	HeaderOriginalStream   = "Loaderd-Original-Stream"   // where the message is still to be had
	HeaderOriginalSequence = "Loaderd-Original-Sequence" // by this number
	HeaderOriginalSubject  = "Loaderd-Original-Subject"
	HeaderTruncated        = "Loaderd-Truncated" // payload or headers were left out, wholly or in part
	originalPrefix         = "Original-"
)

// deadLetters writes undecodable documents to the dead-letter stream, each once.
//
// A letter's subject ends in the original sequence and is published on the condition that its subject is empty, which the server checks
// in the same step: reading the documents again, years later or from two daemons, adds no second letter. (A dedupe id alone would
// be forgotten after the server's window; asking first would leave a gap between question and publish.) A letter that is older than
// the document stream is of an earlier stream of that name, whose sequences mean other documents: it stays, and the new one goes behind it.
//
// As long as letters can be written, a document counts as skipped only when its letter is stored. When they cannot, the run goes on:
// later letters wait in line, by reference, since their documents are still in the document stream.
type deadLetters struct {
	log    *DocumentLog
	stream jetstream.Stream
	wake   chan struct{}
	mu     sync.Mutex
	late   []letter // that failed, or came while others failed
	broken bool     // the last attempt failed
	count  DeadLetterCounts
}

// letter is what a late letter is made of.
type letter struct {
	sequence uint64
	problem  *badDocument
}

// DeadLetterCounts are totals since the document log was opened.
type DeadLetterCounts struct {
	Stored  int64 // written, or found already written
	Failed  int64 // attempts that failed
	Waiting int   // to be written
	Dropped int64 // given up, because too many waited; their documents are still in the document stream
}

// maxOriginal bounds the original headers in a letter; a server takes 64 KiB of headers in all.
const maxOriginal = 48 << 10

// maxLate bounds the letters in line.
const maxLate = 1 << 16

func newDeadLetters(l *DocumentLog, stream jetstream.Stream) *deadLetters {
	return &deadLetters{log: l, stream: stream, wake: make(chan struct{}, 1)}
}

// DeadLetters counts dead letters.
func (l *DocumentLog) DeadLetters() DeadLetterCounts {
	d := l.letters
	if d == nil {
		return DeadLetterCounts{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.count
	c.Waiting = len(d.late)
	return c
}

// put stores the dead letter of m, or puts it in line.
func (d *deadLetters) put(ctx context.Context, m *message, problem *badDocument) {
	d.mu.Lock()
	broken := d.broken
	d.mu.Unlock()
	if !broken && d.note(d.send(ctx, m, problem), m.sequence, problem) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.late) == maxLate {
		d.count.Dropped++
		return
	}
	d.late = append(d.late, letter{m.sequence, problem})
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// note counts an attempt and says whether it succeeded.
func (d *deadLetters) note(err error, sequence uint64, problem *badDocument) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.broken = false
		d.count.Stored++
		level := slog.LevelDebug
		if n := d.count.Stored; n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th, ...: seen at once, and no flood
			level = slog.LevelWarn
		}
		d.log.log.Log(context.Background(), level, "document is undecodable and went to the dead letters", "stream", d.log.name, "sequence", sequence,
			"reason", problem.reason, "problem", problem.sentence, "so_far", d.count.Stored)
		return true
	}
	d.count.Failed++
	if !d.broken {
		d.log.log.Warn("dead letter cannot be stored, trying again in the background", "stream", d.log.name, "sequence", sequence,
			"reason", problem.reason, "problem", problem.sentence, "error", err)
	}
	d.broken = true
	return false
}

// run stores late letters until ctx ends.
func (d *deadLetters) run(ctx context.Context) {
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			d.leave()
			return
		}
		wait := d.log.store.Backoff()
		for d.retry(ctx) {
			d.mu.Lock()
			pause := time.Duration(0)
			if d.broken {
				pause = wait.NextBackOff()
			} else {
				wait.Reset()
			}
			d.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// retry attempts the first late letter and says whether there are more, none when ctx has ended.
func (d *deadLetters) retry(ctx context.Context) bool {
	d.mu.Lock()
	if len(d.late) == 0 || ctx.Err() != nil {
		d.mu.Unlock()
		return false
	}
	next := d.late[0]
	d.late = d.late[1:]
	d.mu.Unlock()
	err := d.resend(ctx, next)
	stored := d.note(err, next.sequence, next.problem)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !stored {
		d.late = append(d.late, next) // behind the others: it may be the only one that fails
	}
	return len(d.late) > 0
}

// resend fetches a late letter's document again and stores the letter.
func (d *deadLetters) resend(ctx context.Context, next letter) error {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptLimit)
	defer cancel()
	m, err := d.log.fetch(ctx, next.sequence)
	if err != nil {
		if conn.Transient(err) || ctx.Err() != nil {
			return err
		}
		m = &message{sequence: next.sequence, garbled: true} // the letter without the message is better than none
	}
	return d.send(ctx, m, next.problem)
}

// leave tells of letters that the end of the reader leaves unwritten.
func (d *deadLetters) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.late); n > 0 {
		d.log.log.Warn("dead letters were not stored; the documents are still in the document stream", "stream", d.log.name, "letters", n,
			"first", d.late[0].sequence, "dropped", d.count.Dropped)
	}
}

// lettersLeft is how many of the largest letters the dead-letter stream has room for: it drops its oldest for a new one.
const lettersLeft = 16

// send stores the letter of m unless it is there.
func (d *deadLetters) send(ctx context.Context, m *message, problem *badDocument) error {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptLimit)
	defer cancel()
	msg := d.letter(m, problem, min(d.log.store.Conn().MaxPayload(), d.log.store.config.DeadLetterBytes/lettersLeft))
	created := d.log.created
	id := fmt.Sprintf("%s:%d:%s", d.log.name, created.UnixNano(), number(m.sequence))
	for before := uint64(0); ; {
		_, err := d.log.store.JetStream().PublishMsg(ctx, msg, jetstream.WithMsgID(id), jetstream.WithExpectLastSequencePerSubject(before))
		if err == nil {
			return nil
		}
		if !conn.WrongLast(err) {
			return fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
		there, err := d.stream.GetLastMsgForSubject(ctx, msg.Subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // dropped for newer ones since
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

// letter builds the dead letter of m in at most limit bytes.
func (d *deadLetters) letter(m *message, problem *badDocument, limit int64) *nats.Msg {
	cfg := d.log.store.config
	subject := m.subject
	if subject == "" {
		subject = cfg.Subject
	}
	msg := nats.NewMsg(cfg.DeadLetterSubject(subject) + "." + number(m.sequence))
	msg.Header.Set(HeaderReason, problem.reason)
	msg.Header.Set(HeaderProblem, problem.sentence)
	msg.Header.Set(HeaderOriginalStream, d.log.name)
	msg.Header.Set(HeaderOriginalSequence, number(m.sequence))
	msg.Header.Set(HeaderOriginalSubject, m.subject)
	// What the server and the client library add: ids, conditions, framing.
	room := limit - 512 - size(msg.Header)
	original := original(m.header)
	if m.garbled || size(original) > min(room, maxOriginal) {
		msg.Header.Add(HeaderTruncated, "headers")
	} else {
		maps.Copy(msg.Header, original)
		room -= size(original)
	}
	msg.Data = m.data
	if int64(len(m.data)) > room {
		msg.Data = m.data[:max(room, 0)]
		msg.Header.Add(HeaderTruncated, "payload of "+strconv.Itoa(len(m.data))+" bytes")
	}
	return msg
}

// original returns a message's headers under names that mean nothing to the server.
func original(header nats.Header) nats.Header {
	out := make(nats.Header, len(header))
	for k, v := range header {
		if !conn.OfDirectGet(k) {
			out[originalPrefix+k] = v
		}
	}
	return out
}

// size is at least what a header takes on the wire.
func size(header nats.Header) (n int64) {
	for k, values := range header {
		for _, v := range values {
			n += int64(len(k) + len(v) + len(": \r\n"))
		}
	}
	return n
}
