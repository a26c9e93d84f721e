package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/messages"
	"loaderd/stream/publish"
)

// publishServer returns a server whose document stream is small.
func publishServer(tb testing.TB, change ...func(*stream.Config)) *natstest.Server {
	tb.Helper()
	small := func(c *stream.Config) { c.MaxBytes, c.ReconnectWait = 64<<20, 50*time.Millisecond }
	return natstest.Start(tb, append([]func(*stream.Config){small}, change...)...)
}

// publishStore returns a store on a separate server.
func publishStore(tb testing.TB, change ...func(*stream.Config)) *stream.Store {
	tb.Helper()
	return publishServer(tb, change...).Store()
}

func newPublisher(tb testing.TB, s *stream.Store, o publish.Options) *publish.Publisher {
	tb.Helper()
	p, err := publish.New(tb.Context(), s, "web", o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func flush(tb testing.TB, p *publish.Publisher) publish.Committed {
	tb.Helper()
	done, err := p.Flush(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return done
}

// numbered returns documents whose text is their number.
func numbered(from, to int) []stream.Message {
	var ms []stream.Message
	for i := from; i < to; i++ {
		ms = append(ms, stream.Message{ID: fmt.Sprint("id-", i), Data: fmt.Appendf(nil, "document %d", i)})
	}
	return ms
}

func texts(ms []stream.Message) []string {
	var all []string
	for _, m := range ms {
		all = append(all, string(m.Data))
	}
	return all
}

// stored returns the texts of the whole document stream.
func stored(tb testing.TB, s *stream.Store) []string {
	tb.Helper()
	var info *jetstream.StreamInfo
	st, err := s.Find(tb.Context(), "documents", s.Config().Name, jetstream.ErrStreamNotFound)
	if err == nil {
		err = s.Retry(tb.Context(), "see where documents end", func(ctx context.Context) (err error) {
			info, err = st.Info(ctx)
			return err
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
	var all []string
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := messages.Get(tb.Context(), s.Client, st, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			tb.Fatalf("read document %d of %d: %v", seq, info.State.LastSeq, err)
		}
		all = append(all, string(m.Data))
	}
	return all
}

func wantStored(tb testing.TB, s *stream.Store, want []string) {
	tb.Helper()
	got := stored(tb, s)
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			tb.Fatalf("stream holds %d documents, want %d; number %d is %.60q, want %.60q", len(got), len(want), i,
				got[i], want[i])
		}
	}
	tb.Fatalf("stream holds %d documents, want %d", len(got), len(want))
}

func TestPublisher_KeepsOrderAndHeaders(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("single=", single), func(t *testing.T) {
			s := publishStore(t)
			p := newPublisher(t, s, publish.Options{Single: single, BatchMessages: 100})
			docs := numbered(0, 1234)
			docs[7].Name, docs[7].Path, docs[7].Domain, docs[7].Tokenizer = "seven", "a/b.txt", "code", "abc"
			docs[7].ContentType = stream.TypeTokens
			if err := p.Publish(t.Context(), docs...); err != nil {
				t.Fatal(err)
			}
			done := flush(t, p)
			wantStored(t, s, texts(docs))
			var bytes int64
			for _, d := range docs {
				bytes += int64(len(d.Data))
			}
			if done.Documents != 1234 || done.Bytes != bytes || done.Duplicates != 0 || done.LastSequence != 1234 {
				t.Errorf("published %+v, want 1234 documents of %d bytes up to sequence 1234", done, bytes)
			}
			st, err := s.EnsureDocuments(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m, err := st.GetMsg(t.Context(), 8)
			if err != nil {
				t.Fatal(err)
			}
			for header, want := range map[string]string{
				"Content-Type": stream.TypeTokens, "Nats-Msg-Id": "id-7", stream.HeaderID: "seven", stream.HeaderPath: "a/b.txt",
				stream.HeaderDomain: "code", stream.HeaderTokenizer: "abc",
			} {
				if got := m.Header.Get(header); got != want {
					t.Errorf("header %s is %q, want %q", header, got, want)
				}
			}
			if m.Subject != "docs.web" {
				t.Errorf("subject is %s, want docs.web", m.Subject)
			}
		})
	}
}

func TestPublisher_DropsDuplicates(t *testing.T) {
	cases := map[string]struct{ first, then []stream.Message }{
		"in one batch":        {nil, append(numbered(0, 10), numbered(5, 12)...)},
		"a whole batch":       {numbered(0, 300), numbered(0, 300)},
		"overlapping the end": {numbered(0, 150), numbered(100, 350)},
		"one in the middle":   {numbered(50, 51), append(numbered(0, 50), numbered(50, 200)...)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := publishStore(t)
			var want []string
			seen := map[string]bool{}
			for _, ms := range [][]stream.Message{c.first, c.then} {
				p := newPublisher(t, s, publish.Options{BatchMessages: 100})
				if err := p.Publish(t.Context(), ms...); err != nil {
					t.Fatal(err)
				}
				flush(t, p)
				for _, m := range ms {
					if !seen[m.ID] {
						seen[m.ID] = true
						want = append(want, string(m.Data))
					}
				}
			}
			wantStored(t, s, want)
		})
	}
}

func TestPublisher_WaitsForRoom(t *testing.T) {
	s := publishStore(t, func(c *stream.Config) { c.MaxBytes = 1 << 20 })
	waits := make(chan string, 100)
	p := newPublisher(t, s, publish.Options{OnWait: func(reason string) { waits <- reason }})
	big := strings.Repeat("x", 4000)
	var docs []stream.Message
	for i := range 1000 {
		docs = append(docs, stream.Message{ID: fmt.Sprint(i), Data: fmt.Append(nil, i, big)})
	}
	published := make(chan error, 1)
	go func() {
		err := p.Publish(t.Context(), docs...)
		if err == nil {
			_, err = p.Flush(t.Context())
		}
		published <- err
	}()
	reason := <-waits
	if !strings.Contains(reason, "full") || !strings.Contains(reason, "DOCS") {
		t.Errorf("waits because %q, want a reason that says DOCS is full", reason)
	}
	while := p.Progress()
	if while.Waiting == "" || while.Documents < 200 || while.Documents > 260 {
		t.Errorf("while full: %+v, want the stream of 1 MiB filled to the brim", while)
	}
	wantStored(t, s, texts(docs[:while.Documents]))
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Space becomes free in two ways: documents are purged, and the bound is raised.
	if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(101)); err != nil {
		t.Fatal(err)
	}
	sc := st.CachedInfo().Config
	sc.MaxBytes = 64 << 20
	if _, err := s.JetStream().UpdateStream(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, texts(docs[100:]))
	done := p.Progress()
	if done.Waiting != "" || done.Waited <= 0 || done.Documents != 1000 {
		t.Errorf("at the end %+v, want 1000 documents and a wait that is over", done)
	}
}

// A publisher that is closed while it waits does not report that it continues.
func TestPublisher_ClosedWhileWaitingDoesNotReportResume(t *testing.T) {
	s := publishStore(t, func(c *stream.Config) { c.MaxBytes = 1 << 20 })
	waits := make(chan string, 100)
	p := newPublisher(t, s, publish.Options{OnWait: func(reason string) { waits <- reason }})
	if err := p.Publish(t.Context(), stream.Message{ID: "1", Data: make([]byte, 900<<10)},
		stream.Message{ID: "2", Data: make([]byte, 900<<10)}); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error, 1)
	go func() {
		_, err := p.Flush(t.Context())
		flushed <- err
	}()
	if reason := <-waits; !strings.Contains(reason, "stream.max_bytes") {
		t.Errorf("waits because %q, want a reason that says what makes room", reason)
	}
	p.Close()
	if err := <-flushed; err == nil {
		t.Error("flush of a document without room succeeds")
	}
	close(waits)
	for reason := range waits {
		if reason == "" {
			t.Error("says that it goes on")
		}
	}
	if now := p.Progress(); now.Waiting != "" || now.Waited <= 0 {
		t.Errorf("closed: %+v, want a wait that is over", now)
	}
}

func TestPublisher_FallsBackToSingleMessages(t *testing.T) {
	s := publishStore(t)
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, s, publish.Options{BatchMessages: 50})
	sc := st.CachedInfo().Config
	sc.AllowAtomicPublish = false
	if _, err := s.JetStream().UpdateStream(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	docs := numbered(0, 175)
	if err := p.Publish(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	flush(t, p)
	wantStored(t, s, texts(docs))
}

func TestPublisher_RefusesTooLargeDocuments(t *testing.T) {
	s := natstest.StartEmbedded(t, func(c *stream.Config) { c.MaxDocument = 4096 }).Store()
	p := newPublisher(t, s, publish.Options{})
	docs := []stream.Message{{Data: []byte("small")}, {Path: "big.txt", Data: make([]byte, 5000)},
		{Data: []byte("also small")}}
	for _, m := range []stream.Message{
		{ID: "masked", Data: []byte("ids"), Loss: slices.Repeat([]int32{1}, 40_000)},
		{ID: "masked", Data: []byte("ids"), Meta: strings.Repeat("x", 1<<16-1)},
	} {
		var large *publish.TooLargeError
		if err := p.Publish(t.Context(), m); !errors.As(err, &large) || !large.Headers || large.Document != "masked" ||
			large.Limit != 65535 {
			t.Fatalf("error is %v, want one that names the document and the limit of its headers", err)
		}
	}
	err := p.Publish(t.Context(), docs...)
	var tooLarge *publish.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Document != "big.txt" || tooLarge.Limit != 4096 || tooLarge.Size <= 5000 {
		t.Fatalf("error is %v, want one that names big.txt, its size and the limit", err)
	}
	if err := p.Publish(t.Context(), docs[2]); err != nil {
		t.Fatal(err)
	}
	flush(t, p)
	wantStored(t, s, []string{"small", "also small"})
}

// The connection is cut in the middle of batches, and the server restarts before the publisher reconnects.
func TestPublisher_SurvivesServerRestart(t *testing.T) {
	t.Parallel()
	srv := publishServer(t)
	client := srv.OpenRemote()
	restart := make(chan struct{})
	restarted := make(chan struct{})
	p := newPublisher(t, client, publish.Options{BatchMessages: 20, Timeout: time.Second, OnWait: func(reason string) {
		select {
		case <-restart:
			// The publisher is between two attempts and stays there until this returns.
			restart = nil
			srv.Restart()
			close(restarted)
		default:
		}
	}})
	docs := numbered(0, 4000)
	for i, d := range docs {
		if err := p.Publish(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if i == 2000 {
			close(restart)
		}
		// Between two batches the publisher may not notice a reconnect, so another one is forced.
		if i == 500 || i == 700 || i == 1500 || i >= 2000 && i%100 == 0 && !closed(restarted) {
			if err := client.Conn().ForceReconnect(); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := flush(t, p)
	<-restarted
	wantStored(t, srv.Store(), texts(docs))
	if done.Documents != 4000 || done.Waited <= 0 {
		t.Errorf("published %+v, want 4000 documents after a wait", done)
	}
}

func TestPublisher_ContinuesAfterContextOfNew(t *testing.T) {
	s := publishStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := publish.New(ctx, s, "web", publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cancel()
	if err := p.Publish(t.Context(), numbered(0, 10)...); err != nil {
		t.Fatal(err)
	}
	if done := flush(t, p); done.Documents != 10 {
		t.Errorf("%d documents are committed, want 10", done.Documents)
	}
}

func TestPublisher_RefusesInvalidOptionsAndUseAfterClose(t *testing.T) {
	s := publishStore(t)
	if _, err := publish.New(t.Context(), s, "not a token", publish.Options{}); err == nil {
		t.Error("a source name with spaces was accepted")
	}
	if _, err := publish.New(t.Context(), s, "web", publish.Options{BatchMessages: 1001}); err == nil {
		t.Error("a batch of 1001 messages was accepted")
	}
	p := newPublisher(t, s, publish.Options{})
	p.Close()
	if err := p.Publish(t.Context(), numbered(0, 1)...); !errors.Is(err, publish.ErrClosed) {
		t.Errorf("publish after close: %v, want ErrPublisherClosed", err)
	}
	if _, err := p.Flush(t.Context()); !errors.Is(err, publish.ErrClosed) {
		t.Errorf("flush after close: %v, want ErrPublisherClosed", err)
	}
	q := newPublisher(t, s, publish.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Flush(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("flush with an ended context: %v", err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
