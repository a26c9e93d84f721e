package deadletter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// HeaderRetryOf is the header of a document that names the dead letter of which it is the retry: stream, time of its
// creation in nanoseconds since 1970, sequence.
const HeaderRetryOf = "Loaderd-Retry-Of"

// Retry publishes letters again as new documents, each letter once. After a crash at any point, or a concurrent
// retry, one of these holds:
//
//	noted as under way, not published   the next retry finds no document after the noted position, and publishes it
//	published, not noted as done        the next retry finds the document by its header, and notes it
//	noted by two at a time              the note is one key, updated by compare-and-swap; the later retry waits until
//	                                    the earlier one is done, or can no longer send (inFlightTimeout)
//	sent in spite of that               by a process that was suspended; the server drops it by its message id, for
//	                                    two minutes
type Retry struct {
	// Edit returns the payload that replaces a letter's payload; nil keeps it. An error leaves the letter unpublished.
	Edit func(ctx context.Context, l Letter) ([]byte, error)
	// DryRun publishes and records nothing.
	DryRun bool
	// OnOutcome is called with the outcome of each letter.
	OnOutcome func(Outcome)

	// Header replaces headers of the documents. An empty value removes one.
	Header map[string]string

	afterPublish func() // in tests: a document is published and not yet noted
	afterSettle  func() // in tests: no letters are under way, and nothing is noted yet
	skipWait     bool   // in tests: skip the wait for letters under way
}

// Outcome is the result for a letter.
type Outcome struct {
	Letter           Letter // without its payload
	Document         uint64 // sequence of the new document; 0 if none was published, or if it is unknown
	AlreadyPublished bool   // it was published again before
	Problem          error  // why it was not published
}

const (
	maxGroupLetters = 64
	maxGroupBytes   = 8 << 20
	// groupTimeout is how long a group may be under way. After inFlightTimeout, none of its letters can still be sent.
	// Both are well below the two minutes for which the server remembers message ids.
	groupTimeout    = 45 * time.Second
	inFlightTimeout = 60 * time.Second
	recordTimeout   = 10 * time.Second
)

// SealedError means that a stream is sealed, so no run reads further documents.
type SealedError struct {
	Stream string
	Last   uint64
}

func (e *SealedError) Error() string {
	return fmt.Sprintf("stream %s is sealed: document %d is its last one, and no run reads later ones; export the "+
		"letters and publish them to another source", e.Stream, e.Last)
}

// retryRun is a Retry of one box.
type retryRun struct {
	Retry
	box       *Queue
	documents jetstream.Stream
	record    *retryRecord
	created   int64 // when the dead-letter stream was created
}

// retryLetter is a letter that is to be published again.
type retryLetter struct {
	letter  Letter
	message *nats.Msg
}

// Do publishes the letters of a box with these sequences again. It stops at an error; the outcomes of earlier letters
// have been passed to Told.
func (r Retry) Do(ctx context.Context, b *Queue, letters []uint64) error {
	letters = slices.Compact(slices.SortedFunc(slices.Values(letters), cmp.Compare))
	if len(letters) == 0 {
		return nil
	}
	w := &retryRun{Retry: r, box: b, created: stream.Created(b.stream.CachedInfo()).UnixNano()}
	if err := w.open(ctx); err != nil {
		return err
	}
	done := map[uint64]bool{}
	if w.record != nil {
		if err := w.record.collectDone(ctx, letters, done); err != nil {
			return err
		}
	}
	var group []retryLetter
	size := 0
	for _, letter := range letters {
		if done[letter] {
			r.OnOutcome(Outcome{Letter: Letter{Letter: letter, Source: b.Source}, AlreadyPublished: true})
			continue
		}
		x, err := w.prepareDocument(ctx, letter)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.OnOutcome(Outcome{Letter: x.letter, Problem: err})
			continue
		}
		if r.DryRun {
			r.OnOutcome(Outcome{Letter: x.letter})
			continue
		}
		if len(group) > 0 && (len(group) == maxGroupLetters || size+len(x.message.Data) > maxGroupBytes) {
			if err := w.publishGroup(ctx, group); err != nil {
				return err
			}
			group, size = nil, 0
		}
		group, size = append(group, x), size+len(x.message.Data)
	}
	if len(group) == 0 {
		return nil
	}
	return w.publishGroup(ctx, group)
}

// open opens the document stream and the record.
func (w *retryRun) open(ctx context.Context) (err error) {
	s, name := w.box.store, w.box.Documents()
	if w.documents, err = s.Find(ctx, "stream "+name, name, errors.New("there is no such document stream")); err != nil {
		return err
	}
	if last, sealed := stream.Sealed(w.documents.CachedInfo().Config); sealed {
		return &SealedError{name, last}
	}
	w.record, err = openRetryRecord(ctx, w.box, !w.DryRun)
	return err
}

// prepareDocument builds the document of a letter.
func (w *retryRun) prepareDocument(ctx context.Context, letter uint64) (retryLetter, error) {
	x := retryLetter{letter: Letter{Letter: letter, Source: w.box.Source}}
	l, err := w.box.Get(ctx, letter)
	if err != nil {
		return x, err
	}
	if len(l.Truncated) > 0 {
		if l, err = w.completeLetter(ctx, l); err != nil {
			return x, err
		}
	}
	x.letter = l
	x.letter.Data = nil
	if l.Subject == "" {
		return x, errors.New("the letter does not contain the subject of its document")
	}
	if w.Edit != nil {
		if l.Data, err = w.Edit(ctx, l); err != nil {
			return x, err
		}
	}
	id := w.retryID(letter)
	x.message = &nats.Msg{Subject: l.Subject, Header: retryHeaders(replaceHeaders(l.Header, w.Header), l.Data),
		Data: l.Data}
	x.message.Header.Set(HeaderRetryOf, id)
	x.message.Header.Set(nats.MsgIdHdr, "retry:"+id)
	return x, nil
}

// completeLetter completes a letter from the document stream, if that still holds the document.
func (w *retryRun) completeLetter(ctx context.Context, l Letter) (Letter, error) {
	gone := fmt.Errorf("the letter lacks %s of its document, which stream %s no longer holds",
		strings.Join(l.Truncated, " and "), w.box.Documents())
	if l.Stream != w.box.Documents() || stream.Created(w.documents.CachedInfo()).After(l.Time) {
		return l, gone
	}
	err := w.box.store.Retry(ctx, "read document", func(ctx context.Context) error {
		m, err := messages.Get(ctx, w.box.store.Client, w.documents, l.Sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return gone
		}
		if err == nil {
			l.Data, l.Header = m.Data, documentHeaders(originalHeaders(m.Header))
		}
		return err
	})
	if errors.Is(err, gone) {
		err = gone
	}
	return l, err
}

// replaceHeaders returns a document's headers with replacements. Names match in any case.
func replaceHeaders(own nats.Header, by map[string]string) nats.Header {
	h := maps.Clone(own)
	if h == nil {
		h = nats.Header{}
	}
	for name, value := range by {
		maps.DeleteFunc(h, func(k string, _ []string) bool { return strings.EqualFold(k, name) })
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

// retryHeaders returns the headers with which a document is published again, without those that the server
// interprets. The message id is that of the retry. A document's id from Nats-Msg-Id, or from its JSON, therefore
// moves to Loaderd-Id.
func retryHeaders(own nats.Header, data []byte) nats.Header {
	h := maps.Clone(own)
	id := ""
	for _, k := range slices.Sorted(maps.Keys(h)) {
		switch {
		case strings.EqualFold(k, stream.HeaderID):
			id = cmp.Or(id, h.Get(k))
		case strings.EqualFold(k, nats.MsgIdHdr):
			id = cmp.Or(id, firstValue(h[k]))
		}
		if k == "" || strings.HasPrefix(strings.ToLower(k), "nats-") || strings.EqualFold(k, HeaderRetryOf) {
			delete(h, k)
		}
	}
	if id == "" && strings.HasPrefix(h.Get(stream.HeaderContentType), stream.TypeJSON) {
		id = jsonID(data)
	}
	if id != "" && h.Get(stream.HeaderID) == "" {
		h.Set(stream.HeaderID, id)
	}
	return h
}

func firstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// jsonID returns the id of a JSON document, empty for none.
func jsonID(data []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return ""
	}
	raw := members["id"]
	var text string
	var number json.Number
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if json.Unmarshal(raw, &number) == nil {
		return string(raw)
	}
	return ""
}

// retryID returns the identity of a letter for a document's header.
func (w *retryRun) retryID(letter uint64) string {
	return fmt.Sprintf("%s:%d:%d", w.box.Name(), w.created, letter)
}

// publishGroup publishes a group.
func (w *retryRun) publishGroup(ctx context.Context, group []retryLetter) error {
	mine, since, err := w.markInFlight(ctx, group)
	if err != nil {
		return err
	}
	limit, cancel := context.WithDeadline(ctx, since.Add(groupTimeout))
	defer cancel()
	if group, err = w.dropDone(limit, group); err != nil {
		return err
	}
	var done []uint64
	var outcomes []Outcome
	var failed error
	for _, x := range group {
		ack, err := w.publishDocument(limit, x.message)
		if err != nil && (conn.IsTransient(err) || limit.Err() != nil) {
			failed = fmt.Errorf("publish letter %d again: %w", x.letter.Letter, err)
			break // whether it is stored is unknown; the next retry determines it
		}
		if err != nil {
			outcomes = append(outcomes, Outcome{Letter: x.letter, Problem: err})
			continue
		}
		done = append(done, x.letter.Letter)
		outcomes = append(outcomes, Outcome{Letter: x.letter, Document: ack.Sequence, AlreadyPublished: ack.Duplicate})
		if w.afterPublish != nil {
			w.afterPublish()
		}
	}
	// Note the results even if ctx was canceled, so that the next retry does not have to find them.
	late, cancelLate := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancelLate()
	if err := w.record.markDone(late, done); err != nil {
		return errors.Join(failed, err)
	}
	for _, o := range outcomes {
		w.OnOutcome(o)
	}
	if failed != nil {
		return failed
	}
	return w.clearInFlight(late, mine)
}

// dropDone removes letters that another retry has published since.
func (w *retryRun) dropDone(ctx context.Context, group []retryLetter) ([]retryLetter, error) {
	done := map[uint64]bool{}
	if err := w.record.collectDone(ctx, lettersOf(group), done); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(group, func(x retryLetter) bool {
		if done[x.letter.Letter] {
			w.OnOutcome(Outcome{Letter: x.letter, AlreadyPublished: true})
		}
		return done[x.letter.Letter]
	}), nil
}

func lettersOf(group []retryLetter) []uint64 {
	letters := make([]uint64, len(group))
	for i, x := range group {
		letters[i] = x.letter.Letter
	}
	return letters
}

// publishDocument publishes a document.
func (w *retryRun) publishDocument(ctx context.Context, m *nats.Msg) (ack *jetstream.PubAck, err error) {
	wait := w.box.store.Backoff()
	for {
		err = w.box.store.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) (err error) {
			ack, err = w.box.store.JetStream().PublishMsg(ctx, m, jetstream.WithExpectStream(w.box.Documents()))
			return err
		})
		if err == nil || !conn.IsTransient(err) {
			return ack, conn.AsFull(err)
		}
		if failed := w.box.store.Pause(ctx, wait.NextBackOff(), err); failed != nil {
			return nil, err
		}
	}
}

// errRetryInFlight means that another retry has noted letters as under way.
var errRetryInFlight = errors.New("another retry is publishing dead letters of the stream")

// markInFlight notes that letters are about to be published, and the end of the document stream, after which they will
// be. It waits while another retry has letters under way. It returns the id of the note, and a time before it was made.
func (w *retryRun) markInFlight(ctx context.Context, group []retryLetter) (mine string, since time.Time, err error) {
	for {
		if err := w.settleInFlight(ctx); err != nil {
			return "", since, err
		}
		last, _, err := w.streamEnd(ctx)
		if err != nil {
			return "", since, err
		}
		if w.afterSettle != nil {
			w.afterSettle()
		}
		since = time.Now()
		mine, err = updateKey(ctx, w.record, w.record.inFlightKey(), inFlightChange, func(u *inFlight) error {
			if len(u.Letters) > 0 {
				return errRetryInFlight
			}
			u.Letters, u.From = lettersOf(group), last
			return nil
		})
		if !errors.Is(err, errRetryInFlight) {
			return mine, since, err
		}
	}
}

func inFlightChange(u *inFlight) *string { return &u.Change }

// clearInFlight notes that the letters of a note are no longer under way.
func (w *retryRun) clearInFlight(ctx context.Context, mine string) error {
	_, err := updateKey(ctx, w.record, w.record.inFlightKey(), inFlightChange, func(u *inFlight) error {
		if u.Change != mine {
			return errSettled
		}
		u.Letters = nil
		return nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

var errSettled = errors.New("another retry has settled the letters")

// streamEnd returns the sequence of the document stream's last document, and the server's time.
func (w *retryRun) streamEnd(ctx context.Context) (last uint64, now time.Time, err error) {
	s := w.box.store
	err = s.Retry(ctx, "read stream "+w.box.Documents(), func(ctx context.Context) error {
		if err := messages.TryBarrier(ctx, s.Client, w.documents); err != nil {
			return err
		}
		info, err := w.documents.Info(ctx)
		if err == nil {
			last, now = info.State.LastSeq, info.TimeStamp
		}
		return err
	})
	return last, now, err
}

// settleInFlight determines the outcome of letters that an earlier retry had under way when it was killed or lost its
// connection. It waits for a retry that may still be running.
func (w *retryRun) settleInFlight(ctx context.Context) error {
	for told := false; ; told = true {
		u, made, _, err := readKey[inFlight](ctx, w.record, w.record.inFlightKey())
		if err != nil || len(u.Letters) == 0 {
			return err
		}
		last, now, err := w.streamEnd(ctx)
		if err != nil {
			return err
		}
		if left := inFlightTimeout - now.Sub(made); left > 0 && !w.skipWait {
			if !told {
				w.box.store.Log().Warn(
					"another retry of dead letters is running or was killed: waiting for its end", "stream",
					w.box.Name(), "at_most", left.Round(time.Second))
			}
			if !sleep(ctx, min(left, pollInterval), nil) {
				return ctx.Err()
			}
			continue
		}
		done, err := w.findPublished(ctx, u, last)
		if err == nil {
			err = w.record.markDone(ctx, done)
		}
		if err == nil {
			err = w.clearInFlight(ctx, u.Change)
		}
		if err != nil {
			return err
		}
	}
}

// findPublished returns which letters that were under way are in the document stream.
func (w *retryRun) findPublished(ctx context.Context, u inFlight, last uint64) (done []uint64, err error) {
	wanted := map[string]uint64{}
	for _, letter := range u.Letters {
		wanted[w.retryID(letter)] = letter
	}
	if u.From >= last {
		return nil, nil
	}
	err = messages.EachHead(ctx, w.box.store.Client, w.documents, "", u.From+1, last, func(m messages.Head) bool {
		if letter, ours := wanted[m.Header.Get(HeaderRetryOf)]; ours {
			done = append(done, letter)
		}
		return m.Sequence < last
	})
	if err != nil {
		return nil, fmt.Errorf("look for letters that were published again: %w", err)
	}
	slices.SortFunc(done, cmp.Compare)
	return slices.Compact(done), nil
}
