package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// peer is a server that records the data that it receives and responds with fixed bytes.
type peer struct {
	answers  []byte
	received chan []byte
}

func (p *peer) InProcessConn() (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer near.Close()
		lines := bufio.NewReader(near)
		_, _ = io.WriteString(near, `INFO {"nonce":"0123456789","client_id":7}`+"\r\n")
		if _, err := lines.ReadString('\n'); err != nil { // CONNECT
			p.received <- nil
			return
		}
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = near.Write(p.answers) })
		all, _ := io.ReadAll(lines)
		near.Close()
		writing.Wait()
		p.received <- all
	}()
	return far, nil
}

// silent is a logger that discards everything.
type silent struct{}

func (silent) Noticef(string, ...any) {}
func (silent) Warnf(string, ...any)   {}
func (silent) Fatalf(string, ...any)  {}
func (silent) Errorf(string, ...any)  {}
func (silent) Debugf(string, ...any)  {}
func (silent) Tracef(string, ...any)  {}

// documents connects to a server without streams.
func documents(t testing.TB) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	return nc
}

// unlimited is a connection without a listener's limits.
type unlimited struct{ net.Conn }

func (unlimited) BeginIdentified() (done func()) { return func() {} }
func (u unlimited) CloseForMisuse(string)        { _ = u.Close() }
func (unlimited) SetWriteBuffer(int) error       { return nil }

// toEnd makes exchange read until the proxy closes the connection.
const toEnd = 1 << 30

// exchange sends bytes from a producer by a proxy to a server, which sends answers. The producer closes the
// connection after it has read the given number of bytes after the server's INFO. exchange returns what each side
// received.
func exchange(t testing.TB, nc *nats.Conn, sent, answers []byte, read int) (toServer, toClient []byte) {
	t.Helper()
	to := &peer{answers: answers, received: make(chan []byte, 1)}
	p := New(nil, Options{Server: to, Addresses: &Addresses{}, Documents: nc, Log: silent{},
		Identify: func(*server.ClientOpts, []byte) Role { return Producer }})
	p.RegisterStreams(Stream{Name: "DOCS", Subjects: []string{"docs.>"}}, Stream{Name: "KV_records"})
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(unlimited{far}) })
	written := make(chan struct{})
	serving.Go(func() {
		defer close(written)
		_, _ = near.Write(append([]byte("CONNECT {}\r\n"), sent...))
	})
	lines := bufio.NewReader(near)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	toClient, _ = io.ReadAll(io.LimitReader(lines, int64(read)))
	serving.Go(func() { _, _ = io.Copy(io.Discard, lines) })
	<-written
	near.Close()
	serving.Wait()
	return <-to.received, toClient
}

// check fails the test unless bytes are messages of NATS' client protocol within the limits.
func check(t *testing.T, sent []byte) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(sent))
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			if text != "" && len(text) < controlLine {
				t.Fatalf("the server gets the line %q without its end", text)
			}
			return
		}
		words := strings.Split(strings.TrimSuffix(text, "\r\n"), " ")
		if slices.Contains(words, "") || strings.ContainsAny(strings.TrimSuffix(text, "\r\n"), "\t\r\n") {
			t.Fatalf("the server gets the line %q", text)
		}
		var m message
		var ok bool
		switch words[0] {
		case "PING", "PONG":
			ok = len(words) == 1
			m.size = -1
		case "SUB":
			ok = len(words) >= 3 && len(words) <= 4 && inboxName(words[1]) != ""
			m.size = -1
		case "UNSUB":
			ok = len(words) >= 2 && len(words) <= 3
			m.size = -1
		case "PUB", "HPUB":
			args := make([][]byte, len(words)-1)
			for i, w := range words[1:] {
				args[i] = []byte(w)
			}
			m, ok = parsePublish(args, words[0] == "HPUB")
		}
		if !ok {
			t.Fatalf("the server gets the line %q", text)
		}
		if m.size < 0 {
			continue
		}
		content := make([]byte, m.size+len(crlf))
		if _, err := io.ReadFull(r, content); err != nil {
			return // the client's data ended within it
		}
		if !bytes.HasSuffix(content, crlf) {
			t.Fatalf("the message behind %q has no end", text)
		}
		if h := scanHeaders(content[:m.head]); h.longestID > IDLimit || m.head > headerLimit {
			t.Fatalf("the server gets a message with an id of %d bytes and %d bytes of headers", h.longestID, m.head)
		}
	}
}

// FuzzProducer sends arbitrary bytes through a proxy in both directions. Forwarded data is valid and within the
// limits.
func FuzzProducer(f *testing.F) {
	const head = "NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n"
	for _, sent := range []string{
		"PING\r\nPONG\r\n", "SUB _INBOX.a.* 1\r\nUNSUB 1 1\r\n", "SUB > 1\r\n", "sub _INBOX.a.*\tq 1\n",
		"PUB docs.a 3\r\nabc\r\n", "PUB docs.a _INBOX.a.b 3\r\nabc\r\n", "PUB _INBOX.a 1\r\na\r\n",
		"PUB docs.a 3\r\nabcd\r\n", "PUB docs.a 999999999\r\na", "PUB $JS.API.STREAM.INFO.DOCS _INBOX.a 2\r\n{}\r\n",
		"PUB $JS.API.DIRECT.GET.DOCS _INBOX.a.b 22\r\n{\"seq\":1,\"batch\":1000}\r\n",
		"PUB $JS.API.STREAM.MSG.GET.KV_records _INBOX.a 9\r\n{\"seq\":1}\r\n",
		"PUB $JS.API.DIRECT.GET.DOCS docs.a 9\r\n{\"seq\":1}\r\n",
		fmt.Sprintf("HPUB docs.a %d %d\r\n%sab\r\n", len(head), len(head)+2, head),
		fmt.Sprintf("HPUB $KV.a %d %d\r\n%sab\r\n", len(head), len(head)+2, head),
		"CONNECT {}\r\n", "\r\n", "PUB\r\n", "HPUB a 5 3\r\n",
	} {
		f.Add([]byte(sent), []byte("MSG _INBOX.a.b 1 2\r\nab\r\nPONG\r\n"))
	}
	f.Add([]byte("SUB _INBOX.a.* 1\r\nUNSUB 1 2\r\n"),
		[]byte("HMSG _INBOX.a.b 1 c 12 14\r\nNATS/1.0\r\n\r\nab\r\nMSG a 1 9999999\r\n"))
	nc := documents(f)
	f.Fuzz(func(t *testing.T, sent, answers []byte) {
		toServer, _ := exchange(t, nc, sent, answers, 0)
		check(t, toServer)
	})
}

func TestProxy_ForwardsMessagesUnchanged(t *testing.T) {
	const head = "NATS/1.0\r\nA: b\r\n\r\n"
	payload := strings.Repeat("x", 3*copyBytes)
	sent := fmt.Sprintf("PUB docs.a %d\r\n%s\r\n", len(payload), payload) +
		fmt.Sprintf("HPUB docs.b _INBOX.c.d %d %d\r\n%s%s\r\n", len(head), len(head)+len(payload), head, payload) +
		"PUB docs.c 0\r\n\r\nPING\r\n"
	answers := "PONG\r\nMSG _INBOX.c.d 1 4\r\n\r\n\r\n\r\n+OK\r\n"
	toServer, toClient := exchange(t, documents(t), []byte(sent), []byte(answers), len(answers))
	if string(toServer) != sent {
		t.Errorf("the server gets %d bytes of %d", len(toServer), len(sent))
	}
	if string(toClient) != answers {
		t.Errorf("the client gets %q", toClient)
	}
}

func TestProxy_RefusesInvalidOperations(t *testing.T) {
	nc := documents(t)
	for _, sent := range []string{
		"HELLO\r\n", "PUB docs.a\r\n", "PUB a b c 1\r\na\r\n", "PUB docs.a -1\r\n", "PUB docs.a 1x\r\n",
		"HPUB docs.a 2 1\r\na\r\n", "PUB docs.a 1\r\nabc", "SUB _INBOX.a\r\n", "UNSUB\r\n", "a b c d e f g\r\n",
		"CONNECT {}\r\n", "PUB " + strings.Repeat("a", controlLine) + " 1\r\n",
	} {
		toServer, toClient := exchange(t, nc, []byte(sent), nil, toEnd)
		if !strings.Contains(string(toClient), "-ERR 'unknown protocol operation'") {
			t.Errorf("%.40q: the server gets %.40q, the client %q", sent, toServer, toClient)
		}
	}
}

func TestOutbox_IsBounded(t *testing.T) {
	o := newOutbox()
	message, n := make([]byte, 1000), 0
	for o.add(message) {
		n += len(message)
	}
	if n > PendingBytes || n+len(message) <= PendingBytes {
		t.Errorf("it holds %d bytes, want up to %d", n, PendingBytes)
	}
	var out bytes.Buffer
	o.close()
	o.write(&out)
	if out.Len() != n {
		t.Errorf("%d bytes of %d were written", out.Len(), n)
	}
}

// Two batches of a connection are counted separately.
func TestBatches_CountsDocuments(t *testing.T) {
	a, all := &producer{}, newBatches(StagedBatch)
	stage := func(id string, commit bool, want int) {
		t.Helper()
		m := batchMessage{subject: "docs.a", size: 10, commit: commit}
		if n, _, why := all.stage(a, batchID{"DOCS", id}, m, time.Now()); n != want || why != nil {
			t.Errorf("batch %s has %d documents, %v; want %d", id, n, why, want)
		}
	}
	stage("1", false, 1)
	stage("2", false, 1)
	stage("1", false, 2)
	stage("2", true, 2)
	stage("1", true, 3)
	stage("1", true, 1) // another batch with the same id
}

// The limits on batches, by messages of connections a and b.
func TestBatches_Limits(t *testing.T) {
	a, b, start := &producer{}, &producer{}, time.Now()
	all := newBatches(4 * StagedBatch)
	stage := func(owner *producer, id string, size int64, commit bool, after time.Duration) (gone string, refused bool) {
		m := batchMessage{subject: "docs.a", size: size, commit: commit}
		_, ended, why := all.stage(owner, batchID{"DOCS", id}, m, start.Add(after))
		for _, x := range ended {
			gone += x.id.id
		}
		return gone, why != nil
	}
	for i, x := range []struct {
		owner     *producer
		id        string
		size      int64
		commit    bool
		after     time.Duration
		abandoned string
		refused   bool
		bytes     int64
	}{
		{a, "1", 10, false, 0, "", false, 10},
		{a, "2", 10, false, 0, "", false, 20},
		{a, "1", 10, true, 0, "", false, 10},
		{a, "3", 10, false, 0, "", false, 20},
		{a, "4", 10, false, 0, "2", false, 20}, // the third one of a connection
		{b, "5", StagedBatch, false, 0, "", false, StagedBatch + 20},
		{b, "5", 1, false, 0, "5", true, 20},                   // too large
		{b, "5", 1, false, 0, "", true, 20},                    // ... and stays refused
		{b, "5", 1, true, 0, "", true, 20},                     // ... to its end
		{b, "5", 1, false, 0, "", false, 21},                   // a new batch with that id
		{b, "6", 100, true, 0, "", false, 21},                  // a batch of one message
		{b, "7", 5, false, batchIdleTimeout + 1, "", false, 5}, // the others are idle
		{a, "8", StagedBatch, false, batchIdleTimeout + 1, "", false, StagedBatch + 5},
		{a, "9", StagedBatch, false, batchIdleTimeout + 1, "", false, 2*StagedBatch + 5},
		{b, "10", StagedBatch, false, batchIdleTimeout + 1, "", false, 3*StagedBatch + 5},
		{&producer{}, "11", StagedBatch, false, batchIdleTimeout + 1, "7", false, 4 * StagedBatch}, // over the limit on all
		{&producer{}, "12", 1, false, batchIdleTimeout + 1, "8", false, 3*StagedBatch + 1},
	} {
		abandoned, refused := stage(x.owner, x.id, x.size, x.commit, x.after)
		if abandoned != x.abandoned || refused != x.refused || all.bytes != x.bytes {
			t.Errorf("message %d: abandons %q, refused %v, %d bytes are staged; want %q, %v, %d",
				i, abandoned, refused, all.bytes, x.abandoned, x.refused, x.bytes)
		}
	}
	if left := all.releaseOwner(a); len(left) != 1 || all.countOwned(a) != 0 {
		t.Errorf("a connection leaves %d batches", len(left))
	}
}

func TestScan_ReadsHeadersLikeServer(t *testing.T) {
	for head, want := range map[string]headers{
		"NATS/1.0\r\n\r\n":                                            {},
		"NATS/1.0\r\nNats-Msg-Id: abc\r\n\r\n":                        {longestID: 3},
		"NATS/1.0\r\nNats-Msg-Id:a\r\nNats-Msg-Id: abcd\r\n\r\n":      {longestID: 4},
		"NATS/1.0\r\nnats-msg-id: abc\r\nX: Nats-Msg-Id: abc\r\n\r\n": {},
		"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Commit: x\r\n":    {batch: []byte("b"), commit: true},
		"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Id: c\r\n\r\n":    {batch: []byte("b")},
	} {
		h := scanHeaders([]byte(head))
		if h.longestID != want.longestID || h.commit != want.commit || !bytes.Equal(h.batch, want.batch) {
			t.Errorf("%q: %+v, want %+v", head, h, want)
		}
	}
}

// practicallyNever is a rate at which no limiter refills during a test, however slow the machine is.
const practicallyNever = rate.Limit(1e-9)

// Message ids of producers are rate-limited beyond the burst, after earlier messages have been forwarded.
func TestProducer_IDsAreRateLimited(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // ends the first wait
	var out bytes.Buffer
	c := &producer{proxy: New(nil, Options{}), ctx: ctx, serverWriter: bufio.NewWriter(&out)}
	if _, err := c.serverWriter.WriteString("PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if perWindow := float64(c.proxy.idLimiter.Limit()) * IDWindow.Seconds(); perWindow > IDBytes-idBurst+1 {
		t.Errorf("%.0f bytes of ids are forwarded in a window, beyond the burst", perWindow)
	}
	c.proxy.idLimiter.SetLimit(practicallyNever)
	allowed := 0
	for c.waitForID(headers{longestID: IDLimit}) == nil {
		if allowed += IDLimit + IDOverhead; allowed > idBurst {
			t.Fatalf("%d bytes of ids are forwarded at once", allowed)
		}
	}
	if allowed < idBurst-IDLimit-IDOverhead || out.String() != "PING\r\n" {
		t.Errorf("%d bytes of ids are forwarded, the server gets %q", allowed, out.String())
	}
	if err := c.waitForID(headers{}); err != nil {
		t.Errorf("a message without an id: %v", err)
	}
}

// Operations that publish no document are rate-limited beyond the burst.
func TestProducer_OtherOperationsAreRateLimited(t *testing.T) {
	for _, operation := range []string{
		"PING\r\n", "UNSUB 1\r\n", "PUB $JS.API.INFO _INBOX.a 0\r\n\r\n", "PUB _INBOX.a 0\r\n\r\n",
		"PUB $JS.API.DIRECT.GET.DOCS _INBOX.a 0\r\n\r\n", "PUB plan.a 0\r\n\r\n",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // ends the first wait
		c := &producer{proxy: New(nil, Options{}), ctx: ctx, serverWriter: bufio.NewWriter(io.Discard), outbox: newOutbox()}
		if limit := c.proxy.otherLimiter.Limit(); limit != otherOpsPerSecond {
			t.Errorf("%v operations are forwarded a second", limit)
		}
		c.proxy.otherLimiter.SetLimit(practicallyNever)
		c.proxy.RegisterStreams(Stream{Name: "DOCS", Subjects: []string{"docs.>"}})
		sent := strings.NewReader(strings.Repeat(operation, 3*otherOpsBurst))
		c.clientReader = bufio.NewReaderSize(sent, controlLine)
		if err := c.forwardClient(); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: got %v, want a wait for the limit", operation, err)
		}
		if done := 3*otherOpsBurst - sent.Len()/len(operation); done > 2*otherOpsBurst {
			t.Errorf("%q: %d of them are forwarded at once", operation, done)
		}
	}
}

// A producer that does not wait for acknowledgements is read no faster than the server stores.
func TestProducer_BoundsUnstoredDocuments(t *testing.T) {
	for name, document := range map[string]string{
		"documents": "PUB docs.a 4\r\nxxxx\r\n",
		"batches":   "HPUB docs.a 52 52\r\nNATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Commit: 1\r\n\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			nc := documents(t)
			p := New(nil, Options{Documents: nc})
			p.RegisterStreams(Stream{Name: "DOCS", Subjects: []string{"docs.>"}})
			asked := 0
			_, err := nc.Subscribe("docs.>", func(m *nats.Msg) { // a server that stores nothing
				if m.Header.Get(nats.ExpectedStreamHdr) == "" {
					t.Errorf("the proxy publishes %q %q", m.Header, m.Data)
				}
				if asked++; asked == maxUnstoredParts {
					cancel()
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			const sent = 4 * maxUnstoredParts * partMessages
			var out bytes.Buffer
			c := &producer{proxy: p, ctx: ctx, serverWriter: bufio.NewWriter(&out), outbox: newOutbox()}
			c.clientReader = bufio.NewReaderSize(strings.NewReader(strings.Repeat(document, sent)), headerLimit)
			if err := c.forwardClient(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want a wait for the server", err)
			}
			if n := bytes.Count(out.Bytes(), []byte("PUB docs.a")); n > (maxUnstoredParts+1)*partMessages {
				t.Errorf("%d of %d are forwarded although none is stored", n, sent)
			}
			p.cancel()
			p.goroutines.Wait()
		})
	}
}

// A large batch is one part. A small one counts as a document.
func TestPartCounter_LargeBatchIsOnePart(t *testing.T) {
	var w partCounter
	add := func(size, documents int, want bool) {
		t.Helper()
		if complete := w.add(size, documents); complete != want {
			t.Errorf("got a complete part: %t, want %t", complete, want)
		}
	}
	add(1, partMessages, true)
	add(1, partMessages-1, false)
	for range partMessages - 2 {
		add(1, 1, false)
	}
	add(1, partMessages, true)
	add(1, 1, true)
	add(partBytes, 1, true)
	add(1, 1, false)
}

// While readers are served, producers get a share of the time: one part follows another after a multiple of the time in
// which the last one delayed readers.
func TestPacer_ProducersYieldToReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(nil, Options{})
		expectWait := func(want time.Duration) {
			t.Helper()
			start := time.Now()
			if err := p.pacer.wait(t.Context()); err != nil {
				t.Error(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("producers waited %v, want %v", got, want)
			}
		}
		expectWait(0)

		stored := p.pacer.beginPart()
		time.Sleep(time.Hour) // without readers
		read, other := p.BeginRead(), p.BeginRead()
		time.Sleep(time.Millisecond)
		stored()
		time.Sleep(time.Millisecond) // without a part
		read()
		other()
		expectWait(0) // the next part of one connection
		expectWait(spacing * time.Millisecond)
		expectWait(spacing * time.Millisecond)

		stored = p.pacer.beginPart()
		read = p.BeginRead()
		time.Sleep(time.Hour)
		read()
		stored()
		expectWait(0)
		expectWait(maxDelay)

		stored = p.pacer.beginPart()
		time.Sleep(time.Hour) // without readers
		stored()
		expectWait(0)
		expectWait(0)

		ctx, cancel := context.WithCancel(t.Context())
		p.pacer.next = time.Now().Add(time.Hour)
		cancel()
		if err := p.pacer.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a closed connection waits: %v", err)
		}
	})
}
