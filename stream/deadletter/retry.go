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
//	                                    the earlier one is done, or can no longer send (overAfter)
//	sent in spite of that               by a process that was suspended; the server drops it by its message id, for
//	                                    two minutes
type Retry struct {
	// Edit returns the payload that replaces a letter's payload; nil keeps it. An error leaves the letter unpublished.
	Edit func(ctx context.Context, l Letter) ([]byte, error)
	// DryRun publishes and records nothing.
	DryRun bool
	// Told is called with the outcome of each letter.
	Told func(Outcome)

	// Header replaces headers of the documents. An empty value removes one.
	Header map[string]string

	published func() // in tests: a document is published and not yet noted
	settled   func() // in tests: no letters are under way, and nothing is noted yet
	hurry     bool   // in tests: skip the wait for letters under way
}

// Outcome is the result for a letter.
type Outcome struct {
	Letter   Letter // without its payload
	Document uint64 // sequence of the new document; 0 if none was published, or if it is unknown
	Already  bool   // it was published again before
	Problem  error  // why it was not published
}

const (
	groupLetters = 64
	groupBytes   = 8 << 20
	// groupLimit is how long a group may be under way. After overAfter, none of its letters can still be sent. Both are
	// well below the two minutes for which the server remembers message ids.
	groupLimit = 45 * time.Second
	overAfter  = 60 * time.Second
	noteLimit  = 10 * time.Second
)

// SealedError means that a stream is sealed, so no run reads further documents.
type SealedError struct {
	Stream string
	Last   uint64
}

func (e *SealedError) Error() string {
	return fmt.Sprintf("stream %s is sealed: document %d is its last one, and no run reads what comes behind; export "+
		"the letters and publish them to another source", e.Stream, e.Last)
}

// work is a Retry of one box.
type work struct {
	Retry
	box       *Box
	documents jetstream.Stream
	record    *retried
	created   int64 // when the dead-letter stream was created
}

// again is a letter that is to be published again.
type again struct {
	letter  Letter
	message *nats.Msg
}

// Do publishes the letters of a box with these sequences again. It stops at an error; the outcomes of earlier letters
// have been passed to Told.
func (r Retry) Do(ctx context.Context, b *Box, letters []uint64) error {
	letters = slices.Compact(slices.SortedFunc(slices.Values(letters), cmp.Compare))
	if len(letters) == 0 {
		return nil
	}
	w := &work{Retry: r, box: b, created: stream.Created(b.stream.CachedInfo()).UnixNano()}
	if err := w.open(ctx); err != nil {
		return err
	}
	done := map[uint64]bool{}
	if w.record != nil {
		if err := w.record.done(ctx, letters, done); err != nil {
			return err
		}
	}
	var group []again
	size := 0
	for _, letter := range letters {
		if done[letter] {
			r.Told(Outcome{Letter: Letter{Letter: letter, Source: b.Source}, Already: true})
			continue
		}
		x, err := w.prepare(ctx, letter)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Told(Outcome{Letter: x.letter, Problem: err})
			continue
		}
		if r.DryRun {
			r.Told(Outcome{Letter: x.letter})
			continue
		}
		if len(group) > 0 && (len(group) == groupLetters || size+len(x.message.Data) > groupBytes) {
			if err := w.publish(ctx, group); err != nil {
				return err
			}
			group, size = nil, 0
		}
		group, size = append(group, x), size+len(x.message.Data)
	}
	if len(group) == 0 {
		return nil
	}
	return w.publish(ctx, group)
}

// open opens the document stream and the record.
func (w *work) open(ctx context.Context) (err error) {
	s, name := w.box.store, w.box.Documents()
	if w.documents, err = s.Find(ctx, "stream "+name, name, errors.New("there is no such document stream")); err != nil {
		return err
	}
	if last, sealed := stream.Sealed(w.documents.CachedInfo().Config); sealed {
		return &SealedError{name, last}
	}
	w.record, err = openRetried(ctx, w.box, !w.DryRun)
	return err
}

// prepare builds the document of a letter.
func (w *work) prepare(ctx context.Context, letter uint64) (again, error) {
	x := again{letter: Letter{Letter: letter, Source: w.box.Source}}
	l, err := w.box.Get(ctx, letter)
	if err != nil {
		return x, err
	}
	if len(l.Truncated) > 0 {
		if l, err = w.whole(ctx, l); err != nil {
			return x, err
		}
	}
	x.letter = l
	x.letter.Data = nil
	if l.Subject == "" {
		return x, errors.New("the letter does not say on which subject its document was published")
	}
	if w.Edit != nil {
		if l.Data, err = w.Edit(ctx, l); err != nil {
			return x, err
		}
	}
	id := w.id(letter)
	x.message = &nats.Msg{Subject: l.Subject, Header: headersAgain(replaced(l.Header, w.Header), l.Data), Data: l.Data}
	x.message.Header.Set(HeaderRetryOf, id)
	x.message.Header.Set(nats.MsgIdHdr, "retry:"+id)
	return x, nil
}

// whole completes a letter from the document stream, if that still holds the document.
func (w *work) whole(ctx context.Context, l Letter) (Letter, error) {
	gone := fmt.Errorf("the letter lacks %s of its document, which stream %s does not hold any more",
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
			l.Data, l.Header = m.Data, headerOf(original(m.Header))
		}
		return err
	})
	if errors.Is(err, gone) {
		err = gone
	}
	return l, err
}

// replaced returns a document's headers with replacements. Names match in any case.
func replaced(own nats.Header, by map[string]string) nats.Header {
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

// headersAgain returns the headers with which a document is published again, without those that the server
// interprets. The message id is that of the retry. A document's id from Nats-Msg-Id, or from its JSON, therefore
// moves to Loaderd-Id.
func headersAgain(own nats.Header, data []byte) nats.Header {
	h := maps.Clone(own)
	id := ""
	for _, k := range slices.Sorted(maps.Keys(h)) {
		switch {
		case strings.EqualFold(k, stream.HeaderID):
			id = cmp.Or(id, h.Get(k))
		case strings.EqualFold(k, nats.MsgIdHdr):
			id = cmp.Or(id, first(h[k]))
		}
		if k == "" || strings.HasPrefix(strings.ToLower(k), "nats-") || strings.EqualFold(k, HeaderRetryOf) {
			delete(h, k)
		}
	}
	if id == "" && strings.HasPrefix(h.Get(stream.HeaderContentType), stream.TypeJSON) {
		id = idOf(data)
	}
	if id != "" && h.Get(stream.HeaderID) == "" {
		h.Set(stream.HeaderID, id)
	}
	return h
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// idOf returns the id of a JSON document, empty for none.
func idOf(data []byte) string {
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

// id returns the identity of a letter for a document's header.
func (w *work) id(letter uint64) string {
	return fmt.Sprintf("%s:%d:%d", w.box.Name(), w.created, letter)
}

// publish publishes a group.
func (w *work) publish(ctx context.Context, group []again) error {
	mine, since, err := w.begin(ctx, group)
	if err != nil {
		return err
	}
	limit, cancel := context.WithDeadline(ctx, since.Add(groupLimit))
	defer cancel()
	if group, err = w.notDone(limit, group); err != nil {
		return err
	}
	var done []uint64
	var outcomes []Outcome
	var failed error
	for _, x := range group {
		ack, err := w.send(limit, x.message)
		if err != nil && (conn.Transient(err) || limit.Err() != nil) {
			failed = fmt.Errorf("publish letter %d again: %w", x.letter.Letter, err)
			break // whether it is stored is unknown; the next retry determines it
		}
		if err != nil {
			outcomes = append(outcomes, Outcome{Letter: x.letter, Problem: err})
			continue
		}
		done = append(done, x.letter.Letter)
		outcomes = append(outcomes, Outcome{Letter: x.letter, Document: ack.Sequence, Already: ack.Duplicate})
		if w.published != nil {
			w.published()
		}
	}
	// Note the results even if ctx was canceled, so that the next retry does not have to find them.
	late, cancelLate := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancelLate()
	if err := w.record.note(late, done); err != nil {
		return errors.Join(failed, err)
	}
	for _, o := range outcomes {
		w.Told(o)
	}
	if failed != nil {
		return failed
	}
	return w.clear(late, mine)
}

// notDone removes letters that another retry has published since.
func (w *work) notDone(ctx context.Context, group []again) ([]again, error) {
	done := map[uint64]bool{}
	if err := w.record.done(ctx, lettersOf(group), done); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(group, func(x again) bool {
		if done[x.letter.Letter] {
			w.Told(Outcome{Letter: x.letter, Already: true})
		}
		return done[x.letter.Letter]
	}), nil
}

func lettersOf(group []again) []uint64 {
	letters := make([]uint64, len(group))
	for i, x := range group {
		letters[i] = x.letter.Letter
	}
	return letters
}

// send publishes a document.
func (w *work) send(ctx context.Context, m *nats.Msg) (ack *jetstream.PubAck, err error) {
	wait := w.box.store.Backoff()
	for {
		err = w.box.store.Attempt(ctx, conn.AttemptLimit, func(ctx context.Context) (err error) {
			ack, err = w.box.store.JetStream().PublishMsg(ctx, m, jetstream.WithExpectStream(w.box.Documents()))
			return err
		})
		if err == nil || !conn.Transient(err) {
			return ack, conn.AsFull(err)
		}
		if failed := w.box.store.Pause(ctx, wait.NextBackOff(), err); failed != nil {
			return nil, err
		}
	}
}

// errBusy means that another retry has noted letters as under way.
var errBusy = errors.New("somebody else publishes dead letters of the stream again at this moment")

// begin notes that letters are about to be published, and the end of the document stream, after which they will be.
// It waits while another retry has letters under way. It returns the id of the note, and a time before it was made.
func (w *work) begin(ctx context.Context, group []again) (mine string, since time.Time, err error) {
	for {
		if err := w.settle(ctx); err != nil {
			return "", since, err
		}
		last, _, err := w.end(ctx)
		if err != nil {
			return "", since, err
		}
		if w.settled != nil {
			w.settled()
		}
		since = time.Now()
		mine, err = change(ctx, w.record, w.record.underwayKey(), underwayID, func(u *underway) error {
			if len(u.Letters) > 0 {
				return errBusy
			}
			u.Letters, u.From = lettersOf(group), last
			return nil
		})
		if !errors.Is(err, errBusy) {
			return mine, since, err
		}
	}
}

func underwayID(u *underway) *string { return &u.Change }

// clear notes that the letters of a note are no longer under way.
func (w *work) clear(ctx context.Context, mine string) error {
	_, err := change(ctx, w.record, w.record.underwayKey(), underwayID, func(u *underway) error {
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

var errSettled = errors.New("somebody else has found out what became of the letters")

// end returns the sequence of the document stream's last document, and the server's time.
func (w *work) end(ctx context.Context) (last uint64, now time.Time, err error) {
	s := w.box.store
	err = s.Retry(ctx, "read stream "+w.box.Documents(), func(ctx context.Context) error {
		if err := messages.Confirm(ctx, s.Client, w.documents); err != nil {
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

// settle determines the outcome of letters that an earlier retry had under way when it was killed or lost its
// connection. It waits for a retry that may still be running.
func (w *work) settle(ctx context.Context) error {
	for told := false; ; told = true {
		u, made, _, err := get[underway](ctx, w.record, w.record.underwayKey())
		if err != nil || len(u.Letters) == 0 {
			return err
		}
		last, now, err := w.end(ctx)
		if err != nil {
			return err
		}
		if left := overAfter - now.Sub(made); left > 0 && !w.hurry {
			if !told {
				w.box.store.Log().Warn(
					"another retry of dead letters is running or was killed: waiting for its end", "stream",
					w.box.Name(), "at_most", left.Round(time.Second))
			}
			if !wait(ctx, min(left, lookEvery), nil) {
				return ctx.Err()
			}
			continue
		}
		done, err := w.find(ctx, u, last)
		if err == nil {
			err = w.record.note(ctx, done)
		}
		if err == nil {
			err = w.clear(ctx, u.Change)
		}
		if err != nil {
			return err
		}
	}
}

// find returns which letters that were under way are in the document stream.
func (w *work) find(ctx context.Context, u underway, last uint64) (done []uint64, err error) {
	wanted := map[string]uint64{}
	for _, letter := range u.Letters {
		wanted[w.id(letter)] = letter
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
