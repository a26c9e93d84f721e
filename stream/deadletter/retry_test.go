package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// box opens the only dead-letter stream.
func box(t *testing.T, s *stream.Store) *deadletter.Queue {
	t.Helper()
	boxes, err := deadletter.ListQueues(natstest.Context(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(boxes) != 1 {
		t.Fatalf("there are %d streams of dead letters", len(boxes))
	}
	return boxes[0]
}

// documents creates the document stream with n documents.
func documents(t *testing.T, s *stream.Store, n int) jetstream.Stream {
	t.Helper()
	st, err := s.EnsureDocuments(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, natstest.Documents(1, n)...)
	return st
}

// retries returns the documents that were published again, in the order of the stream.
func retries(t *testing.T, st jetstream.Stream) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	info, err := st.Info(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
		m, err := st.GetMsg(natstest.Context(t), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get(deadletter.HeaderRetryOf) != "" {
			all = append(all, m)
		}
	}
	return all
}

// told collects outcomes as words.
type told struct{ words []string }

func (t *told) tell(o deadletter.Outcome) {
	word := "published"
	switch {
	case o.Problem != nil:
		word = o.Problem.Error()
	case o.AlreadyPublished:
		word = "already"
	}
	t.words = append(t.words, fmt.Sprint(o.Letter.Letter, " ", word))
}

func retry(t *testing.T, s *stream.Store, r deadletter.Retry, letters ...uint64) []string {
	t.Helper()
	var said told
	r.OnOutcome = said.tell
	if err := r.Do(natstest.Context(t), box(t, s), letters); err != nil {
		t.Fatal(err)
	}
	return said.words
}

// A letter is published again like its document, and once for any number of retries, whether or not the server still
// remembers its id.
func TestRetry_PublishesLetterOnceLikeItsDocument(t *testing.T) {
	s := natstest.Start(t).Store()
	st := documents(t, s, 3)
	w, err := deadletter.Open(natstest.Context(t), s, time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for sequence, h := range map[uint64]nats.Header{
		1: {"X-Mine": {"kept", "twice"}, "Content-Type": {stream.TypeJSON}, nats.MsgIdHdr: {"own-id"},
			"Nats-Expected-Last-Sequence": {"999"}},
		2: {"Content-Type": {stream.TypeJSON}},
		3: nil,
	} {
		w.Put(natstest.Context(t), deadletter.Original{Sequence: sequence, Subject: fmt.Sprint("docs.s", sequence), Header: h,
			Data: []byte(`{"id":"j","text":"x"}`)}, broken)
	}
	if got := retry(t, s, deadletter.Retry{DryRun: true}, 1, 2, 3); len(got) != 3 || len(retries(t, st)) != 0 {
		t.Errorf("a dry run reports %q and publishes %d", got, len(retries(t, st)))
	}
	if got, want := retry(t, s, deadletter.Retry{}, 1, 2, 3, 9),
		[]string{"1 published", "2 published", "3 published"}; !reflect.DeepEqual(without(got, "9 "), want) || len(got) != 4 {
		t.Errorf("a retry reports %q, want %q and what is wrong with 9", got, want)
	}
	forget(t, s)
	if got, want := retry(t, s, deadletter.Retry{}, 3, 2, 1),
		[]string{"1 already", "2 already", "3 already"}; !reflect.DeepEqual(got, want) {
		t.Errorf("a second retry reports %q, want %q", got, want)
	}
	all := retries(t, st)
	if len(all) != 3 {
		t.Fatalf("%d documents are published again", len(all))
	}
	for _, m := range all {
		id := m.Header.Get(stream.HeaderID)
		if string(m.Data) != `{"id":"j","text":"x"}` || !strings.HasPrefix(m.Header.Get(nats.MsgIdHdr), "retry:DOCS_DLQ:") {
			t.Errorf("document %d is %q with %v", m.Sequence, m.Data, m.Header)
		}
		switch m.Subject {
		case "docs.s1":
			if id != "own-id" || !slices.Equal(m.Header["X-Mine"], []string{"kept", "twice"}) ||
				m.Header.Get("Content-Type") != stream.TypeJSON {
				t.Errorf("headers are %v", m.Header)
			}
		case "docs.s2":
			if id != "j" {
				t.Errorf("the id of JSON is %q", id)
			}
		case "docs.s3":
			if id != "" {
				t.Errorf("a text has id %q", id)
			}
		default:
			t.Errorf("subject %s", m.Subject)
		}
	}
	done, err := box(t, s).RetriedLetters(natstest.Context(t), []uint64{1, 2, 3, 4})
	if err != nil || !reflect.DeepEqual(done, map[uint64]bool{1: true, 2: true, 3: true}) {
		t.Errorf("recorded are %v, %v", done, err)
	}
}

func without(words []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, prefix) })
}

// forget makes the server forget message ids by shortening the deduplication window of two minutes. At the first
// change the server may check the ids against the old window, and check again only when that is over. The second
// change triggers another check.
func forget(t *testing.T, s *stream.Store) {
	t.Helper()
	st, err := s.JetStream().Stream(natstest.Context(t), s.Config().Name)
	if err != nil {
		t.Fatal(err)
	}
	c := st.CachedInfo().Config
	update := func(window time.Duration) {
		t.Helper()
		c.Duplicates = window
		if _, err := s.JetStream().UpdateStream(natstest.Context(t), c); err != nil {
			t.Fatal(err)
		}
	}
	usual, short := c.Duplicates, 100*time.Millisecond
	update(short)
	update(short + time.Millisecond)
	known := func() bool { // a message with a remembered id is dropped
		m := nats.NewMsg("docs.probe")
		m.Header.Set(nats.MsgIdHdr, "probe")
		ack, err := s.JetStream().PublishMsg(natstest.Context(t), m)
		return err != nil || ack.Duplicate
	}
	known()
	natstest.Eventually(t, "ids are forgotten", func() bool { return !known() })
	update(usual)
}

// The next retry completes one that is killed anywhere between publishing and recording. Each document is published
// once.
func TestRetry_CompletesKilledRetry(t *testing.T) {
	const letters = 150 // three groups
	all := make([]uint64, letters)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	for _, at := range []int{1, 2, 64, 65, 100, 150} {
		t.Run(fmt.Sprint("behind document ", at), func(t *testing.T) {
			s := natstest.Start(t).Store()
			st := documents(t, s, 2)
			keep(t, s, 1, letters, "INVALID_JSON")
			published := 0
			b := box(t, s)
			var killed sync.WaitGroup
			killed.Go(func() {
				r := deadletter.Retry{OnOutcome: func(deadletter.Outcome) {}}.AfterPublish(func() {
					natstest.Publish(t, s, natstest.Documents(10+published, 1)...) // producers continue
					if published++; published == at {
						runtime.Goexit()
					}
				})
				_ = r.Do(natstest.Context(t), b, all)
			})
			killed.Wait()
			forget(t, s)
			var said told
			r := deadletter.Retry{OnOutcome: said.tell}.AfterPublish(nil)
			if err := r.Do(natstest.Context(t), box(t, s), all); err != nil {
				t.Fatal(err)
			}
			already := 0
			for _, w := range said.words {
				if strings.HasSuffix(w, "already") {
					already++
				}
			}
			// A publication whose acknowledgement is late is sent again, and then counts as published before, too.
			if len(said.words) != letters || already < at {
				t.Errorf("of %d letters %d had been published, want at least %d", len(said.words), already, at)
			}
			count := map[string]int{}
			for _, m := range retries(t, st) {
				count[m.Header.Get(deadletter.HeaderRetryOf)]++
			}
			if len(count) != letters {
				t.Errorf("%d letters are published again", len(count))
			}
			for of, n := range count {
				if n != 1 {
					t.Errorf("%s is published %d times", of, n)
				}
			}
		})
	}
}

// A retry that is wrongly considered killed loses nothing to the retry that continues in its place, nor to one that
// begins at the same moment.
func TestRetry_WronglyConsideredKilledLosesNothing(t *testing.T) {
	for _, name := range []string{"it ends later", "it begins at the same moment"} {
		t.Run(name, func(t *testing.T) {
			s := natstest.Start(t).Store()
			st := documents(t, s, 2)
			keep(t, s, 1, 2, "INVALID_JSON")
			ctx, b := natstest.Context(t), box(t, s)
			quiet := deadletter.Retry{OnOutcome: func(deadletter.Outcome) {}}
			var working sync.WaitGroup
			// second publishes letter 2 and is killed before it notes that, after it has called during.
			second := func(during func()) {
				var dying sync.WaitGroup
				dying.Go(func() { _ = quiet.AfterPublish(func() { during(); runtime.Goexit() }).Do(ctx, b, []uint64{2}) })
				dying.Wait()
			}
			if name == "it ends later" {
				published, goOn := make(chan struct{}), make(chan struct{})
				working.Go(func() {
					if err := quiet.AfterPublish(func() { close(published); <-goOn }).Do(ctx, b, []uint64{1}); err != nil {
						t.Error(err)
					}
				})
				<-published
				second(func() { close(goOn); working.Wait() })
			} else {
				once := sync.OnceFunc(func() { second(func() {}) })
				if err := quiet.AfterSettle(once).Do(ctx, b, []uint64{1}); err != nil {
					t.Error(err)
				}
			}
			forget(t, s)
			if err := quiet.AfterPublish(nil).Do(ctx, b, []uint64{1, 2}); err != nil {
				t.Fatal(err)
			}
			if all := retries(t, st); len(all) != 2 {
				t.Errorf("two letters are published again %d times", len(all))
			}
		})
	}
}

// A retry waits for another one that has letters under way and may be running. It publishes nothing meanwhile.
func TestRetry_WaitsForRunningRetry(t *testing.T) {
	s := natstest.Start(t).Store()
	st := documents(t, s, 2)
	keep(t, s, 1, 2, "INVALID_JSON")
	b := box(t, s)
	quiet := deadletter.Retry{OnOutcome: func(deadletter.Outcome) {}}
	err := quiet.AfterPublish(func() {
		ctx := natstest.TimeoutContext(t, 2*time.Second)
		if err := quiet.Do(ctx, b, []uint64{1, 2}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second ends with %v", err)
		}
		if all := retries(t, st); len(all) != 1 {
			t.Errorf("meanwhile %d are published again", len(all))
		}
	}).Do(natstest.Context(t), b, []uint64{1})
	if err != nil {
		t.Fatal(err)
	}
	if err := quiet.Do(natstest.Context(t), b, []uint64{1, 2}); err != nil {
		t.Fatal(err)
	}
	if all := retries(t, st); len(all) != 2 {
		t.Errorf("two letters are published again %d times", len(all))
	}
}

// Any letter can be recorded as published again.
func TestQueue_MarkDoneRecordsAnyLetter(t *testing.T) {
	s := natstest.Start(t).Store()
	documents(t, s, 1)
	keep(t, s, 1, 1, "INVALID_JSON")
	b := box(t, s)
	done := []uint64{1, 7, 65535, 65536, 200_000, 1 << 40}
	for _, part := range [][]uint64{done[:2], done[1:5], done[5:]} {
		if err := b.MarkDone(natstest.Context(t), part...); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.RetriedLetters(natstest.Context(t), []uint64{1, 2, 7, 8, 65535, 65536, 65537, 131_079, 200_000,
		200_001, 1 << 40})
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), done) {
		t.Errorf("recorded are %v, %v", got, err)
	}
}

// Headers can be replaced, which fixes what no other payload can.
func TestRetry_ReplacesHeaders(t *testing.T) {
	s := natstest.Start(t).Store()
	st := documents(t, s, 1)
	w, err := deadletter.Open(natstest.Context(t), s, time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Put(natstest.Context(t), deadletter.Original{Sequence: 1, Subject: "docs.x",
		Header: nats.Header{"content-type": {"image/png"}, "X-Mine": {"a"}, "X-Gone": {"b"}}, Data: []byte("text")}, broken)
	retry(t, s, deadletter.Retry{Header: map[string]string{"Content-Type": stream.TypeText, "X-Gone": ""}}, 1)
	m := retries(t, st)[0]
	if m.Header.Get("Content-Type") != stream.TypeText || len(m.Header["content-type"]) > 0 ||
		m.Header.Get("X-Mine") != "a" || len(m.Header["X-Gone"]) > 0 {
		t.Errorf("headers are %v", m.Header)
	}
}

// Concurrent retries publish each letter once.
func TestRetry_ConcurrentRetriesPublishOnce(t *testing.T) {
	s := natstest.Start(t).Store()
	st := documents(t, s, 1)
	keep(t, s, 1, 200, "INVALID_JSON")
	var all []uint64
	for i := uint64(1); i <= 200; i++ {
		all = append(all, i)
	}
	var working sync.WaitGroup
	for range 3 {
		working.Go(func() {
			boxes, err := deadletter.ListQueues(natstest.Context(t), s)
			if err == nil {
				err = deadletter.Retry{OnOutcome: func(deadletter.Outcome) {}}.Do(natstest.Context(t), boxes[0], all)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	count := map[string]int{}
	for _, m := range retries(t, st) {
		count[m.Header.Get(deadletter.HeaderRetryOf)]++
	}
	if len(count) != 200 || len(retries(t, st)) != 200 {
		t.Errorf("%d letters are published again, %d times", len(count), len(retries(t, st)))
	}
}

// Edit gets the payload, and a letter that it cannot fix is not published.
func TestRetry_EditSkipsLettersItCannotFix(t *testing.T) {
	s := natstest.Start(t).Store()
	st := documents(t, s, 1)
	keep(t, s, 1, 3, "INVALID_JSON")
	edit := func(_ context.Context, l deadletter.Letter) ([]byte, error) {
		if l.Sequence == 2 {
			return nil, errors.New("it cannot be mended")
		}
		return append(l.Data, fmt.Sprintf(`"mended":%d}`, l.Sequence)...), nil
	}
	if got, want := retry(t, s, deadletter.Retry{Edit: edit}, 1, 2, 3), []string{"2 it cannot be mended", "1 published",
		"3 published"}; !reflect.DeepEqual(got, want) {
		t.Errorf("it reports %q, want %q", got, want)
	}
	var data []string
	for _, m := range retries(t, st) {
		data = append(data, string(m.Data))
	}
	if want := []string{`{"mended":1}`, `{"mended":3}`}; !reflect.DeepEqual(data, want) {
		t.Errorf("published are %q, want %q", data, want)
	}
	if got, want := retry(t, s, deadletter.Retry{}, 1, 2, 3),
		[]string{"1 already", "3 already", "2 published"}; !reflect.DeepEqual(got, want) {
		t.Errorf("a second retry reports %q, want %q", got, want)
	}
}

// What was truncated from a letter is read from the document stream while that has it.
func TestRetry_ReadsTruncatedPartsFromDocumentStream(t *testing.T) {
	s := natstest.Start(t, func(c *stream.Config) { c.DeadLetterBytes = 1 << 20 }).Store()
	st := documents(t, s, 1)
	large := []byte(strings.Repeat("x", 100<<10))
	for range 2 {
		natstest.Publish(t, s, stream.Message{Data: large, Path: "a"})
	}
	w, err := deadletter.Open(natstest.Context(t), s, stream.Created(st.CachedInfo()), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sequence := range []uint64{2, 3} {
		w.Put(natstest.Context(t), deadletter.Original{Sequence: sequence, Subject: "docs.test", Data: large}, broken)
	}
	if err := st.DeleteMsg(natstest.Context(t), 3); err != nil {
		t.Fatal(err)
	}
	got := retry(t, s, deadletter.Retry{}, 1, 2)
	if len(got) != 2 || got[1] != "1 published" || !strings.Contains(got[0], "which stream DOCS no longer holds") {
		t.Errorf("it reports %q", got)
	}
	m, err := st.GetMsg(natstest.Context(t), 4)
	if err != nil || string(m.Data) != string(large) || m.Header.Get(stream.HeaderPath) != "a" {
		t.Errorf("a document of %d bytes is published again, %v", len(m.Data), err)
	}
}

// A retry publishes nothing to a sealed stream.
func TestRetry_RefusesSealedSource(t *testing.T) {
	s := natstest.Start(t).Store().Source("math", 1)
	if _, err := s.EnsureDocuments(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	keep(t, s, 1, 2, "INVALID_JSON")
	if _, err := s.SealDocuments(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	var sealed *deadletter.SealedError
	err := deadletter.Retry{OnOutcome: func(o deadletter.Outcome) {
		t.Errorf("%+v", o)
	}}.Do(natstest.Context(t), box(t, s), []uint64{1, 2})
	if !errors.As(err, &sealed) || sealed.Stream != "DOCS_math" {
		t.Errorf("it reports %v", err)
	}
}

// Boxes finds the dead-letter streams of all sources, with each complete letter in them.
func TestListQueues_FindsAllSources(t *testing.T) {
	s := natstest.Start(t).Store()
	if boxes, err := deadletter.ListQueues(natstest.Context(t), s); err != nil || len(boxes) != 0 {
		t.Errorf("without a stream: %d, %v", len(boxes), err)
	}
	for _, source := range []string{"web", "math"} {
		of := s.Source(source, 2)
		if _, err := of.EnsureDocuments(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
		keep(t, of, 1, 3, "INVALID_JSON", "TOO_LARGE")
	}
	boxes, err := deadletter.ListQueues(natstest.Context(t), s)
	if err != nil || len(boxes) != 2 || boxes[0].Source != "math" || boxes[1].Source != "web" {
		t.Fatalf("boxes %+v, %v", boxes, err)
	}
	var heads []string
	if err := boxes[1].Each(natstest.Context(t), func(l deadletter.Letter) bool {
		heads = append(heads, fmt.Sprint(l.Letter, l.Source, l.Sequence, l.Reason, len(l.Data)))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1web1TOO_LARGE0", "2web2INVALID_JSON0", "3web3TOO_LARGE0"}; !reflect.DeepEqual(heads, want) {
		t.Errorf("letters %q, want %q", heads, want)
	}
	l, err := boxes[0].Get(natstest.Context(t), 2)
	if err != nil || string(l.Data) != "{" || l.Header.Get("X-Mine") != "kept" || l.Stream != "DOCS_math" ||
		l.Problem != "document 2" {
		t.Errorf("letter 2 is %+v, %v", l, err)
	}
	if _, err := boxes[0].Get(natstest.Context(t), 4); !errors.Is(err, deadletter.ErrLetterNotFound) {
		t.Errorf("letter 4: %v", err)
	}
}
