package docstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

func TestReader_InOrderWhilePublishing(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	src := openSource(t, l, 1)
	const publishers, each = 4, 500
	var running sync.WaitGroup
	for p := range publishers {
		store := srv.OpenRemote()
		running.Go(func() {
			for i := range each {
				m := stream.Message{Subject: fmt.Sprintf("docs.p%d", p), Data: fmt.Appendf(nil, "%d %d", p, i)}
				if _, err := store.JetStream().PublishMsg(context.Background(), m.NATS()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := make([]int, publishers)
	for i := range publishers * each {
		d := nextDoc(t, src)
		if d.Sequence != uint64(i+1) {
			t.Fatalf("received sequence %d instead of %d", d.Sequence, i+1)
		}
		var p, n int
		if _, err := fmt.Sscan(docText(t, d), &p, &n); err != nil {
			t.Fatal(err)
		}
		if n != seen[p] {
			t.Fatalf("document %d of publisher %d arrived instead of %d", n, p, seen[p])
		}
		seen[p]++
	}
	running.Wait()
	src.settle()
	natstest.Eventually(t, "the source is dry", func() bool { return !src.Status().DrySince.IsZero() })
	s := src.Status()
	if s.Last != publishers*each || s.Fetched != s.Last || s.Delivered != s.Last || s.Buffered != 0 ||
		!s.DownSince.IsZero() {
		t.Errorf("status at the end: %+v", s)
	}
	natstest.Publish(t, srv.Store(), stream.Message{Data: []byte("late")})
	if got := docText(t, nextDoc(t, src)); got != "late" {
		t.Errorf("document after a dry spell is %q", got)
	}
}

// A slow stream is dry since its last document, although each document is fetched immediately.
func TestReader_DrySinceLastDocument(t *testing.T) {
	srv := natstest.Start(t)
	src := openSource(t, openLog(t, srv.Store()), 1)
	for i := range 3 {
		before := time.Now()
		natstest.Publish(t, srv.Store(), natstest.Documents(i+1, 1)...)
		checkCounted(t, src, i+1, 1)
		natstest.Eventually(t, "the source is dry", func() bool { return !src.Status().DrySince.IsZero() })
		if since := src.Status().DrySince; since.Before(before) {
			t.Fatalf("dry since %v before document %d was published", before.Sub(since), i+1)
		}
	}
}

func TestRead_FromAnySequence(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 300)...)
	for _, from := range []int{1, 2, 150, 300} {
		checkCounted(t, openSource(t, l, uint64(from)), from, 301-from)
	}
	src := openSource(t, l, 301) // the next one to be published
	natstest.Publish(t, srv.Store(), natstest.Documents(301, 1)...)
	checkCounted(t, src, 301, 1)
}

func TestRead_RefusesInvalidPositions(t *testing.T) {
	srv := natstest.Start(t)
	l, ctx := openLog(t, srv.Store()), natstest.Context(t)
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 10)...)
	if _, err := l.Read(ctx, 0); err == nil {
		t.Error("sequence 0 was taken")
	}
	_, err := l.Read(ctx, 12)
	var gone *fault.Error
	if !errors.As(err, &gone) || gone.Reason != fault.DocumentLost ||
		!strings.Contains(gone.Message, "ends at sequence 10, documents up to 11") {
		t.Errorf("read behind the end: %v", err)
	}
	purgeDocs(t, srv.Store(), 6)
	_, err = l.Read(ctx, 3)
	lostRange(t, err, 3, 5)
	checkCounted(t, openSource(t, l, 6), 6, 5)
	if s, err := l.State(ctx); s.First != 6 || s.Last != 10 || err != nil {
		t.Errorf("sequences %d to %d, %v, want 6 to 10", s.First, s.Last, err)
	}
}

func TestState_OfEmptyStream(t *testing.T) {
	srv := natstest.Start(t)
	l, ctx := openLog(t, srv.Store()), natstest.Context(t)
	if s, err := l.State(ctx); s.First != 1 || s.Last != 0 || s.Problem != nil || err != nil {
		t.Errorf("sequences %d to %d, %v, %v, want 1 to 0", s.First, s.Last, s.Problem, err)
	}
	if src := openSource(t, l, 1); src.Status().DrySince.IsZero() {
		t.Error("a source of an empty stream is not dry")
	}
}

func purgeDocs(t testing.TB, s *stream.Store, before uint64) {
	t.Helper()
	st, err := s.JetStream().Stream(natstest.Context(t), s.Config().Name)
	if err == nil {
		err = st.Purge(natstest.Context(t), jetstream.WithPurgeSequence(before))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func removeDocs(t testing.TB, s *stream.Store, sequences ...uint64) {
	t.Helper()
	st, err := s.JetStream().Stream(natstest.Context(t), s.Config().Name)
	for _, seq := range sequences {
		if err == nil {
			err = st.DeleteMsg(natstest.Context(t), seq)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestReader_NamesGap(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 20)...)
	removeDocs(t, srv.Store(), 8, 9, 15)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 7)
	_, err := src.Next(natstest.Context(t))
	lostRange(t, err, 8, 9)
	src = openSource(t, l, 10)
	checkCounted(t, src, 10, 5)
	_, err = src.Next(natstest.Context(t))
	lostRange(t, err, 15, 15)
}

func TestReader_NamesGapAtEnd(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 10)...)
	removeDocs(t, srv.Store(), 9, 10)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 8)
	_, err := src.Next(natstest.Context(t))
	lostRange(t, err, 9, 10)
}

func TestReader_IgnoresDeletionOfReadDocuments(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 10)...)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 10)
	natstest.Publish(t, srv.Store(), stream.Message{Data: []byte("document 11")})
	checkCounted(t, src, 11, 1)
	removeDocs(t, srv.Store(), 3) // behind the reader, so without effect
	natstest.Publish(t, srv.Store(), natstest.Documents(12, 1)...)
	checkCounted(t, src, 12, 1)
}

func TestReader_SurvivesServerRestart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 3000)...)
	remote := srv.OpenRemote()
	src := openSource(t, openLog(t, remote), 1)
	checkCounted(t, src, 1, 700)
	srv.Stop()
	natstest.Eventually(t, "the source says that it is down", func() bool { return !src.Status().DownSince.IsZero() })
	if s := src.Status(); s.DownReason == "" {
		t.Errorf("no reason for being down: %+v", s)
	}
	srv.Restart()
	natstest.Publish(t, srv.Store(), natstest.Documents(3001, 1000)...)
	checkCounted(t, src, 701, 3300)
	natstest.Eventually(t, "the source is up and dry", func() bool {
		s := src.Status()
		return s.DownSince.IsZero() && !s.DrySince.IsZero()
	})
}

func TestReader_SurvivesRepeatedCuts(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	const n = 20000
	natstest.Publish(t, srv.Store(), natstest.Documents(1, n)...)
	link := natstest.NewLink(t, srv.Store().ClientURL())
	src := openSource(t, openLog(t, srv.OpenRemoteAt(link.URL())), 1)
	for i := range 10 {
		checkCounted(t, src, 1+i*n/10, n/10)
		link.Cut()
		link.Restore()
	}
}

func TestReader_DetectsRecreatedStream(t *testing.T) {
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 5)...)
	l := openLog(t, srv.Store())
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 5)
	if err := srv.Store().JetStream().DeleteStream(natstest.Context(t), "DOCS"); err != nil {
		t.Fatal(err)
	}
	openLog(t, srv.Store()) // recreates it
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 50)...)
	_, err := src.Next(natstest.Context(t))
	mismatch := func(what string, err error) {
		t.Helper()
		var other *fault.Error
		if !errors.As(err, &other) || other.Reason != fault.StreamMismatch {
			t.Errorf("%s: %v, want %s", what, err, fault.StreamMismatch)
		}
	}
	mismatch("a document of another stream", err)
	_, err = l.State(natstest.Context(t))
	mismatch("its state", err)
	_, err = l.Content(natstest.Context(t), 3) // the new stream has such a document, of the same length
	mismatch("its tokens", err)
	if err := srv.Store().JetStream().DeleteStream(natstest.Context(t), "DOCS"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Content(natstest.Context(t), 3)
	mismatch("tokens without a stream", err)
}

// State reports settings under which a stream may lose documents or accepts no more of them.
func TestState_ReportsUnsafeSettings(t *testing.T) {
	srv := natstest.Start(t)
	l, ctx := openLog(t, srv.Store()), natstest.Context(t)
	st, err := srv.Store().JetStream().Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	good := st.CachedInfo().Config
	for setting, change := range map[string]func(c *jetstream.StreamConfig){
		"subjects": func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} },
		"discard":  func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"max_age":  func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs": func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
	} {
		c := good
		change(&c)
		if _, err := srv.Store().JetStream().UpdateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
		if s, err := l.State(ctx); err != nil || s.Problem == nil || !strings.Contains(s.Problem.Error(), setting+" is ") {
			t.Errorf("%s was changed: %v, %v", setting, s.Problem, err)
		}
	}
	if _, err := srv.Store().JetStream().UpdateStream(ctx, good); err != nil {
		t.Fatal(err)
	}
	if s, err := l.State(ctx); err != nil || s.Problem != nil {
		t.Errorf("all is as it was: %v, %v", s.Problem, err)
	}
}

func TestReceive_HonoursContext(t *testing.T) {
	srv := natstest.Start(t)
	src := openSource(t, openLog(t, srv.Store()), 1)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := src.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("next on an empty stream: %v", err)
	}
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 2)...)
	checkCounted(t, src, 1, 2) // nothing was lost by giving up
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-src.Chunks():
		t.Error("a closed source has a chunk")
	default:
	}
}

func TestContent_EqualsDeliveredDocument(t *testing.T) {
	srv := natstest.Start(t)
	l, ctx := openLog(t, srv.Store()), natstest.Context(t)
	messages := []stream.Message{
		{Subject: "docs.web", ID: "a", Path: "p/a.txt", Domain: "example.org", Data: []byte("some text")},
		{ContentType: stream.TypeJSON, Data: []byte(`{"id":7,"text":"more"}`)},
		{ContentType: stream.TypeTokens, Tokenizer: "sha256:bytes", Data: stream.AppendTokens(nil, []int32{1, 2, 3})},
		{Data: nil},
		{Data: append(bytes.Repeat([]byte("a"), 200), "\xff\xfe"...)},
	}
	natstest.Publish(t, srv.Store(), messages...)
	src := openSource(t, l, 1)
	for i := range messages {
		d := nextDoc(t, src)
		again, err := l.Content(ctx, d.Sequence)
		if err != nil || !slices.Equal(again.NarrowTokens, d.NarrowTokens) {
			t.Errorf("tokens of document %d: %v, %v, the source delivered %v", i+1, again, err, d.NarrowTokens)
		}
		info, err := l.Describe(ctx, d.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if stored := info.Time.UnixNano(); d.Skip == "" && (d.Stored != stored || again.Stored != stored) {
			t.Errorf("document %d was stored at %d; the source reports %d, and %d again", i+1, stored, d.Stored, again.Stored)
		}
	}
	_, err := l.Content(ctx, 99)
	lostRange(t, err, 99, 99)
	removeDocs(t, srv.Store(), 2)
	_, err = l.Content(ctx, 2)
	lostRange(t, err, 2, 2)

	info, err := l.Describe(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	info.Time = time.Time{}
	want := document.Info{Sequence: 1, Subject: "docs.web", ID: "a", Path: "p/a.txt", Domain: "example.org",
		ContentType: stream.TypeText, Bytes: 9}
	if !cmp.Equal(info, want) {
		t.Errorf("description is %+v, want %+v", info, want)
	}
}

// Callers retry on SOURCE_DOWN, so a permanent error has another reason.
func TestRead_FinalErrorIsNotSourceDown(t *testing.T) {
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	s := srv.OpenRemote()
	l := openLog(t, s)
	s.Conn().Close() // permanently
	var down *fault.Error
	if _, err := l.Read(natstest.Context(t), 1); err == nil || errors.As(err, &down) {
		t.Errorf("over a closed connection: %v, want an error without a reason", err)
	}
}

func TestContent_ReportsSourceDown(t *testing.T) {
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 1)...)
	l := openLog(t, srv.OpenRemote())
	srv.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := l.Content(ctx, 1)
	var down *fault.Error
	if !errors.As(err, &down) || down.Reason != fault.SourceDown || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("tokens without a server: %v, want %s", err, fault.SourceDown)
	}
	srv.Restart()
	if again, err := l.Content(natstest.Context(t), 1); err != nil || again.Len() != len("document 1")+1 {
		t.Errorf("tokens after the restart: %v, %v", again, err)
	}
}

// If nothing consumes the documents, reading ahead fills its room and the server drops the consumer. This is not a
// failure and is not logged as one.
func TestReader_DroppedConsumerIsNoFailure(t *testing.T) {
	var said natstest.LogBuffer
	c := natstest.Config(t)
	c.BufferBytes = 1 << 20
	s, err := stream.Open(natstest.Context(t), c, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := openLog(t, s)
	docstream.SetInactive(l, 200*time.Millisecond)
	const n = 400 // many times what is read ahead
	large := stream.Message{Data: bytes.Repeat([]byte("x"), 4<<10)}
	natstest.Publish(t, s, slices.Repeat([]stream.Message{large}, n)...)
	src := openSource(t, l, 1)
	st, err := s.EnsureDocuments(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	consumers := func() int {
		info, err := st.Info(natstest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Consumers
	}
	for at := uint64(1); at <= n; at++ {
		if at%150 == 1 {
			natstest.Eventually(t, "there is no room, and no consumer", func() bool {
				return src.Status().Buffered > 0 && consumers() == 0
			})
		}
		if d := nextDoc(t, src); d.Sequence != at {
			t.Fatalf("received sequence %d instead of %d", d.Sequence, at)
		}
	}
	if strings.Contains(said.String(), "cannot be read") {
		t.Errorf("the log is: %s", said.String())
	}
}
