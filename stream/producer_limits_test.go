package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/messages"
	"loaderd/stream/proxy"
	"loaderd/stream/server"
)

// line is a connection to a server that speaks the NATS protocol manually.
type line struct {
	net.Conn
	lines *bufio.Reader
}

// dialProducer connects with the token of producers.
func dialProducer(t *testing.T, s *stream.Store) *line {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.Config().Dir, server.ProducerFile))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &line{conn, bufio.NewReader(conn)}
	l.expect(t, "INFO ")
	const connect = `CONNECT {"verbose":false,"user":"producer","pass":%q,"headers":true,"no_responders":true}`
	fmt.Fprintf(conn, connect+"\r\nPING\r\n", strings.TrimSpace(string(token)))
	l.expect(t, "PONG")
	return l
}

// expect reads a line with a prefix.
func (l *line) expect(t *testing.T, prefix string) string {
	t.Helper()
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	text, err := l.lines.ReadString('\n')
	for err == nil && !strings.HasPrefix(text, prefix) {
		switch {
		case strings.HasPrefix(text, "INFO "): // again, after CONNECT
		case strings.HasPrefix(text, "PING"): // the connection has been idle
			_, err = fmt.Fprint(l, "PONG\r\n")
		default:
			t.Fatalf("the server sends %q, want %s", text, prefix)
		}
		if err == nil {
			text, err = l.lines.ReadString('\n')
		}
	}
	if err != nil || !strings.HasPrefix(text, prefix) {
		t.Fatalf("the server sends %q, %v, want %s", text, err, prefix)
	}
	return text
}

// publish sends a message with headers.
func (l *line) publish(subject, reply string, payload []byte, headers ...string) error {
	head := "NATS/1.0\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	size := len(head) + len(payload)
	_, err := fmt.Fprintf(l, "HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(head), size, head, payload)
	return err
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Responses that producers do not read use a bounded amount of memory, and another producer gets responses meanwhile.
func TestProducerToken_UnreadResponsesAreBounded(t *testing.T) {
	const documents, attackers, gets, bound = 24, 10, 4, 256 << 20
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	for range documents {
		meta := `{"a":"` + strings.Repeat("y", 48<<10) + `"}`
		natstest.Publish(t, s.Store(), stream.Message{Data: bytes.Repeat([]byte("x"), 1<<20), Meta: meta})
	}
	before := heap()
	for i := range attackers {
		l := dialProducer(t, s.Store())
		question := fmt.Sprintf(`{"seq":1,"batch":%d}`, documents)
		fmt.Fprintf(l, "SUB _INBOX.attacker%d.> 1\r\n", i)
		for range gets {
			fmt.Fprintf(l, "PUB $JS.API.DIRECT.GET.DOCS _INBOX.attacker%d.x %d\r\n%s\r\n", i, len(question), question)
		}
	}
	producer := as(t, s, server.ProducerFile, server.Producer)
	for range 20 {
		if _, err := producer.Request("$JS.API.DIRECT.GET.DOCS", []byte(`{"seq":1}`), time.Minute); err != nil {
			t.Fatal(err)
		}
		if grown := heap() - before; grown > bound {
			t.Fatalf("%d connections that do not read take %d bytes of memory", attackers, grown)
		}
	}
}

// A get into the inbox of another connection is refused: no slow reader would bound its responses.
func TestProducerToken_RefusesGetIntoAnotherInbox(t *testing.T) {
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	natstest.Publish(t, s.Store(), stream.Message{Data: []byte("x")})
	owner, other := dialProducer(t, s.Store()), dialProducer(t, s.Store())
	fmt.Fprint(owner, "SUB _INBOX.owner.> 1\r\nPING\r\n")
	owner.expect(t, "PONG")
	const get = "PUB $JS.API.DIRECT.GET.DOCS _INBOX.owner.x 9\r\n{\"seq\":1}\r\n"
	fmt.Fprint(other, get)
	other.expect(t, "-ERR 'Permissions Violation for Publish")
	fmt.Fprint(owner, get)
	owner.expect(t, "HMSG _INBOX.owner.x 1 ")
}

// A producer that does not read is disconnected before the server buffers much for it.
func TestProducerToken_ClosesConnectionThatStopsReading(t *testing.T) {
	s := natstest.StartEmbedded(t)
	l := dialProducer(t, s.Store())
	pings := bytes.Repeat([]byte("PING\r\n"), 1<<16/6)
	for sent := 0; ; sent += len(pings) {
		if _, err := l.Write(pings); err != nil {
			return
		}
		if sent > 64<<20 {
			t.Fatalf("the server takes %d bytes of pings without closing the connection", sent)
		}
	}
}

// A producer that reads stays connected, however much it is sent.
func TestProducerToken_GetsEveryDocumentsHeaders(t *testing.T) {
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	const documents = 40
	for i := range documents {
		natstest.Publish(t, s.Store(), stream.Message{ID: strconv.Itoa(i + 1), Data: []byte("secret"),
			Meta: `{"a":"` + strings.Repeat("y", 20<<10) + `"}`})
	}
	producer := as(t, s, server.ProducerFile, server.Producer)
	inbox, err := producer.SubscribeSync(producer.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	ids, asked := 0, 0
	for next := 1; next <= documents; asked++ {
		question := fmt.Sprintf(`{"seq":%d,"batch":1000,"next_by_subj":"docs.>"}`, next)
		if err := producer.PublishRequest("$JS.API.DIRECT.GET.DOCS", inbox.Subject, []byte(question)); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := inbox.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Data) > 0 {
				t.Fatalf("the producer gets %q", m.Data)
			}
			if m.Header.Get("Status") != "" {
				last, err := strconv.Atoi(m.Header.Get("Nats-Last-Sequence"))
				if err != nil || m.Header.Get("Nats-Num-Pending") != strconv.Itoa(documents-last) {
					t.Fatalf("the answer ends with %v", m.Header)
				}
				next = last + 1
				break
			}
			if ids++; m.Header.Get("Nats-Msg-Id") != strconv.Itoa(ids) {
				t.Fatalf("document %d has the headers %v", ids, m.Header)
			}
		}
	}
	if ids != documents || asked < 2 {
		t.Errorf("got %d documents by %d gets", ids, asked)
	}
	m, err := producer.Request("$JS.API.STREAM.MSG.GET.DOCS", []byte(`{"seq":1}`), time.Minute)
	if err != nil || !bytes.Contains(m.Data, []byte(`"hdrs"`)) || bytes.Contains(m.Data, []byte(`"data"`)) {
		t.Errorf("the leader's answer is %s, %v", m.Data, err)
	}
}

// A producer's inbox is private: another producer can neither read it nor multiply messages to it.
func TestProducerToken_InboxHasOneReader(t *testing.T) {
	s := natstest.StartEmbedded(t)
	first, second := dialProducer(t, s.Store()), dialProducer(t, s.Store())
	fmt.Fprint(first, "SUB _INBOX.mine.* 1\r\nPING\r\n")
	first.expect(t, "PONG")
	for _, subject := range []string{"_INBOX.mine.*", "_INBOX.mine", "_INBOX.*.x", "_INBOX.>", ">", "docs.>"} {
		fmt.Fprintf(second, "SUB %s 1\r\n", subject)
		second.expect(t, "-ERR 'Permissions Violation for Subscription")
	}
	for i := range 65 {
		fmt.Fprintf(second, "SUB _INBOX.other.%d %d\r\n", i, i)
	}
	second.expect(t, "-ERR 'maximum subscriptions exceeded'")
	fmt.Fprint(first, "UNSUB 1\r\nPING\r\n")
	first.expect(t, "PONG")
	fmt.Fprint(second, "UNSUB 1\r\nSUB _INBOX.mine.* 100\r\nPING\r\n")
	second.expect(t, "PONG")
}

// A message id that is too long is refused with an error that names the limit.
func TestProducerToken_RefusesLongMessageID(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.Context(t)
	docs := openDocuments(t, s.Store())
	producer := as(t, s, server.ProducerFile, server.Producer)
	js, err := jetstream.New(producer)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("i", proxy.IDLimit+1)
	_, err = js.Publish(ctx, "docs.web", []byte("text"), jetstream.WithMsgID(long))
	var refused *jetstream.APIError
	if !errors.As(err, &refused) || !strings.Contains(refused.Description, strconv.Itoa(proxy.IDLimit)) {
		t.Errorf("a document with an id of %d bytes: %v", len(long), err)
	}
	if _, err := js.Publish(ctx, "docs.web", []byte("text"), jetstream.WithMsgID(long[:proxy.IDLimit])); err != nil {
		t.Errorf("a document with an id of %d bytes: %v", proxy.IDLimit, err)
	}
	l := dialProducer(t, s.Store())
	if err := l.publish("docs.web", "", []byte("text"), "Nats-Msg-Id: "+strings.Repeat("i", 60_000)); err != nil {
		t.Fatal(err)
	}
	if text := l.expect(t, "-ERR 'Permissions Violation"); !strings.Contains(text, strconv.Itoa(proxy.IDLimit)) {
		t.Errorf("the error %q does not name the limit", text)
	}
	fmt.Fprint(l, "SUB _INBOX.batch 1\r\n")
	for i, id := range []string{"a", long, "c"} {
		headers, reply := []string{"Nats-Msg-Id: " + id, "Nats-Batch-Id: b", fmt.Sprintf("Nats-Batch-Sequence: %d", i+1)}, ""
		if i == 2 {
			headers, reply = append(headers, "Nats-Batch-Commit: 1"), "_INBOX.batch"
		}
		if err := l.publish("docs.web", reply, []byte("text"), headers...); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(t, "MSG _INBOX.batch 1 ")
	if text := l.expect(t, `{"error":`); !strings.Contains(text, strconv.Itoa(proxy.IDLimit)) {
		t.Errorf("the answer to the batch %q does not name the limit", text)
	}
	if info, err := docs.Info(ctx); err != nil || info.State.Msgs != 1 {
		t.Errorf("the stream is %+v, %v", info, err)
	}
}

// staged returns the bytes of uncommitted batches on the server's disk.
func staged(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		if err != nil || d.IsDir() || !strings.Contains(filepath.ToSlash(path), "/batches/") {
			return err
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// The server's memory for message ids is at most what the limit on ids allows. Longer ids are not stored.
func TestProducerToken_MemoryOfMessageIDsIsBounded(t *testing.T) {
	const documents, longer, slack = 10_000, 3000, 64 << 20
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	producer := as(t, s, server.ProducerFile, server.Producer)
	producer.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // of the longer ids
	message := func(bytes, i int) *nats.Msg {
		id := fmt.Sprintf("%0*d", bytes, i)
		return &nats.Msg{Subject: "docs.a", Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {id}}}
	}
	before := heap()
	for i := range documents {
		if err := producer.PublishMsg(message(proxy.IDLimit, i)); err != nil {
			t.Fatal(err)
		}
		if i < longer {
			if err := producer.PublishMsg(message(60<<10, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	last, err := producer.RequestMsg(message(proxy.IDLimit, documents), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(last.Data), fmt.Sprintf(`"seq":%d`, documents+1)) {
		t.Errorf("the last of %d documents: %s", documents+1, last.Data)
	}
	if grown, bound := heap()-before, int64(documents*(proxy.IDLimit+proxy.IDOverhead)+slack); grown > bound {
		t.Errorf("%d ids take %d MiB of memory, want %d MiB at most", documents, grown>>20, bound>>20)
	}
}

// Uncommitted batches of producers use a bounded part of the disk, and never use up the limit on batches.
func TestProducerToken_UncommittedBatchesAreBounded(t *testing.T) {
	const attackers, count, slack = 60, 8, 32 << 20
	s := natstest.StartEmbedded(t)
	ctx := natstest.TimeoutContext(t, 5*time.Minute)
	openDocuments(t, s.Store())
	c := s.Config()
	c.URL = s.Store().ClientURL()
	producer, err := stream.OpenProducer(ctx, c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	payload := bytes.Repeat([]byte("x"), 1<<20)
	var lines []*line
	for i := range attackers {
		l := dialProducer(t, s.Store())
		lines = append(lines, l)
		for n := range count {
			id, place := fmt.Sprintf("Nats-Batch-Id: b%d", i), fmt.Sprintf("Nats-Batch-Sequence: %d", n+1)
			if err := l.publish("docs.web", "", payload, id, place); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprint(l, "PING\r\n")
		l.expect(t, "PONG")
	}
	batch := func() error {
		first, second := nats.NewMsg("docs.good"), nats.NewMsg("docs.good")
		_, err := messages.Commit(ctx, producer.Client, true, first, second)
		return err
	}
	if err := batch(); err != nil {
		t.Errorf("another producer's batch: %v", err)
	}
	if n := staged(t, c.Dir); n > proxy.StagedBytes+slack {
		t.Errorf("%d bytes of uncommitted batches are on disk, more than %d", n, proxy.StagedBytes)
	}
	for _, l := range lines {
		l.Close()
	}
	natstest.Eventually(t, "the batches of closed connections are gone", func() bool { return staged(t, c.Dir) < 1<<20 })
	if err := batch(); err != nil {
		t.Error(err)
	}
}

// The size of one batch, and the batches of one connection, are bounded too. loaderd's publisher sends smaller
// batches.
func TestProducerToken_LargeBatchIsRefused(t *testing.T) {
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	l := dialProducer(t, s.Store())
	fmt.Fprint(l, "SUB _INBOX.batch 1\r\n")
	payload := bytes.Repeat([]byte("x"), 8<<20)
	messages := proxy.StagedBatch/len(payload) + 1
	for i := range messages {
		headers, reply := []string{"Nats-Batch-Id: b", fmt.Sprintf("Nats-Batch-Sequence: %d", i+1)}, ""
		if i == messages-1 {
			headers, reply = append(headers, "Nats-Batch-Commit: 1"), "_INBOX.batch"
		}
		if err := l.publish("docs.web", reply, payload, headers...); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(t, "MSG _INBOX.batch 1 ")
	if text := l.expect(t, `{"error":`); !strings.Contains(text, strconv.Itoa(proxy.StagedBatch)) {
		t.Errorf("the answer %q does not name the limit", text)
	}
	for i := range 10 { // every third one replaces the first
		id := fmt.Sprintf("Nats-Batch-Id: c%d", i)
		if err := l.publish("docs.web", "", []byte("x"), id, "Nats-Batch-Sequence: 1"); err != nil {
			t.Fatal(err)
		}
	}
	end := []string{"Nats-Batch-Id: c9", "Nats-Batch-Sequence: 2", "Nats-Batch-Commit: 1"}
	if err := l.publish("docs.web", "_INBOX.batch", []byte("x"), end...); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "MSG _INBOX.batch 1 ")
	l.expect(t, `{"stream":"DOCS"`)
}

// Regular clients with the producers' token are not affected, on each member of a cluster.
func TestProducerToken_PublishesOverEachMember(t *testing.T) {
	stores := openMembers(t, members(t))
	t.Cleanup(func() {
		for _, store := range stores {
			_ = store.Close()
		}
	})
	natstest.Eventually(t, "the document stream is made", func() bool {
		_, err := stores[0].EnsureDocuments(natstest.Context(t))
		return err == nil
	})
	for i, producer := range newSite(t, stores...).producers {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		// A member that has just started may not have the stream yet, so the request has no responder.
		natstest.Eventually(t, fmt.Sprintf("member %d stores a document", i), func() bool {
			_, err := stored(ctx, producer, "docs.web", "text")
			return err == nil
		})
		natstest.Eventually(t, fmt.Sprintf("member %d answers a get", i), func() bool {
			return answered(ctx, producer, "$JS.API.DIRECT.GET.DOCS.docs.web", "")
		})
		natstest.Eventually(t, "the member names the other two", func() bool {
			return len(producer.DiscoveredServers()) == 2
		})
		cancel()
	}
}
