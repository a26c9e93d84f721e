package docstream_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/loader/plan"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// deadLetters returns the messages of the dead-letter stream by their original sequence.
func deadLetters(t testing.TB, s *stream.Store) map[string]*jetstream.RawStreamMsg {
	t.Helper()
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*jetstream.RawStreamMsg{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := st.GetMsg(natstest.Context(t), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // a probe
		}
		if err != nil {
			t.Fatal(err)
		}
		key := m.Header.Get(deadletter.HeaderOriginalSequence)
		if out[key] != nil {
			t.Errorf("two dead letters of sequence %s", key)
		}
		out[key] = m
	}
	return out
}

// badMessages returns messages that are not documents, by the reason that their dead letters must give.
func badMessages() map[string]*nats.Msg {
	with := func(data string, header ...string) *nats.Msg {
		m := nats.NewMsg("docs.bad")
		m.Data = []byte(data)
		for i := 0; i < len(header); i += 2 {
			m.Header.Set(header[i], header[i+1])
		}
		return m
	}
	const kind = "Content-Type"
	return map[string]*nats.Msg{
		"BAD_CONTENT_TYPE":   with("\x89PNG", kind, "image/png"),
		"BAD_CHARSET":        with("x", kind, "text/plain; charset=utf-16"),
		"INVALID_JSON":       with(`{"text":`, kind, stream.TypeJSON, "X-Mine", "kept"),
		"BAD_TOKENS":         with("12345", kind, stream.TypeTokens, stream.HeaderTokenizer, "sha256:bytes"),
		"WRONG_TOKENIZER":    with("1234", kind, stream.TypeTokens, stream.HeaderTokenizer, "sha256:other"),
		"TOKEN_OUT_OF_RANGE": with("\xff\xff\xff\x7f", kind, stream.TypeTokens, stream.HeaderTokenizer, "sha256:bytes"),
		"ENCODER_PANIC":      with("panic please"),
	}
}

func TestDeadLetters_InvalidDocumentsBecomeLetters(t *testing.T) {
	srv := natstest.Start(t)
	l, s := openLog(t, srv.Store()), srv.Store()
	want := map[string]string{} // reason by sequence
	messages := map[string]*nats.Msg{}
	for reason, m := range badMessages() {
		ack, err := s.JetStream().PublishMsg(natstest.Context(t), m)
		if err != nil {
			t.Fatal(err)
		}
		seq := strconv.FormatUint(ack.Sequence, 10)
		want[seq], messages[seq] = reason, m
		natstest.Publish(t, s, stream.Message{Data: []byte("good")})
	}
	n := 2 * len(want)
	src := openSource(t, l, 1)
	for i := 1; i <= n; i++ {
		d := nextDoc(t, src)
		if d.Sequence != uint64(i) {
			t.Fatalf("received sequence %d instead of %d", d.Sequence, i)
		}
		if reason := want[fmt.Sprint(i)]; reason == "" {
			if got := docText(t, d); got != "good" {
				t.Errorf("document %d is %q", i, got)
			}
		} else if d.Skip != plan.SkipUndecodable || d.Len() > 0 || d.ID != 0 {
			t.Errorf("document %d (%s): %+v, want it skipped as undecodable", i, reason, d)
		}
	}
	// Letters are stored before their documents are delivered.
	letters := deadLetters(t, s)
	if len(letters) != len(want) {
		t.Errorf("%d dead letters, want %d", len(letters), len(want))
	}
	for seq, reason := range want {
		m, original := letters[seq], messages[seq]
		if m == nil {
			t.Errorf("%s: no dead letter", reason)
			continue
		}
		h := m.Header
		if h.Get(deadletter.HeaderReason) != reason || h.Get(deadletter.HeaderProblem) == "" ||
			h.Get(deadletter.HeaderOriginalStream) != "DOCS" ||
			h.Get(deadletter.HeaderOriginalSubject) != "docs.bad" || m.Subject != "dlq.docs.bad."+seq ||
			h.Get(deadletter.HeaderTruncated) != "" {
			t.Errorf("%s: subject %s, headers %v", reason, m.Subject, h)
		}
		if !bytes.Equal(m.Data, original.Data) {
			t.Errorf("%s: payload is %q, want %q", reason, m.Data, original.Data)
		}
		for k := range original.Header {
			if h.Get("Original-"+k) != original.Header.Get(k) {
				t.Errorf("%s: original header %s is %q, want %q", reason, k, h.Get("Original-"+k), original.Header.Get(k))
			}
		}
	}
	if st := src.Status(); st.Undecoded != int64(len(want)) || st.Empty != 0 {
		t.Errorf("%d undecoded and %d empty are counted, want %d and 0", st.Undecoded, st.Empty, len(want))
	}
	if c := l.DeadLetters(); c != (deadletter.Counts{Stored: int64(len(want))}) {
		t.Errorf("dead letters are counted as %+v", c)
	}
}

func TestDeadLetters_RereadingAddsNone(t *testing.T) {
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	for _, m := range badMessages() {
		if _, err := srv.Store().JetStream().PublishMsg(natstest.Context(t), m); err != nil {
			t.Fatal(err)
		}
	}
	n := len(badMessages())
	for range 3 {
		src := openSource(t, openLog(t, srv.Store()), 1)
		for range n {
			nextDoc(t, src)
		}
		src.Close()
		forgetIDs(t, srv.Store())
		srv.Restart()
	}
	if got := len(deadLetters(t, srv.Store())); got != n {
		t.Errorf("%d dead letters, want %d", got, n)
	}
}

// A recreated document stream counts its documents from 1 again. The dead letters of the earlier stream do not belong
// to its documents.
func TestDeadLetters_OfEarlierStreamDoNotCount(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	bad := func(data string) {
		t.Helper()
		m := nats.NewMsg("docs.bad")
		m.Header.Set("Content-Type", "image/png")
		m.Data = []byte(data)
		if _, err := s.JetStream().PublishMsg(natstest.Context(t), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range []string{"first", "second"} {
		l := openLog(t, s)
		bad(data)
		for range 2 { // reading again adds none
			src := openSource(t, l, 1)
			nextDoc(t, src)
			src.Close()
		}
		if err := s.JetStream().DeleteStream(natstest.Context(t), "DOCS"); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := st.GetMsg(natstest.Context(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, m.Subject+" "+string(m.Data))
	}
	if want := []string{"dlq.docs.bad.1 first", "dlq.docs.bad.1 second"}; !slices.Equal(have, want) {
		t.Errorf("letters are %q, want %q", have, want)
	}
}

// forgetIDs shortens the deduplication window of the dead-letter stream and waits until the stream has forgotten all
// message ids.
func forgetIDs(t *testing.T, s *stream.Store) {
	t.Helper()
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	// At the first change the server may check the ids against the old window, and check again only when that window is
	// over. The second change triggers another check.
	for _, cfg.Duplicates = range []time.Duration{100 * time.Millisecond, 101 * time.Millisecond} {
		if _, err := s.JetStream().UpdateStream(natstest.Context(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	taken := 0
	natstest.Eventually(t, "an id is taken a second time", func() bool {
		ack, err := s.JetStream().Publish(natstest.Context(t), "dlq.docs.probe", nil, jetstream.WithMsgID("probe"))
		if err == nil && !ack.Duplicate {
			taken++
		}
		return taken == 2
	})
	if err := st.Purge(natstest.Context(t), jetstream.WithPurgeSubject("dlq.docs.probe")); err != nil {
		t.Fatal(err)
	}
}

func TestReader_SkipsEmptyDocuments(t *testing.T) {
	srv := natstest.Start(t)
	publishable := []stream.Message{
		{ID: "a"},
		{ContentType: stream.TypeJSON, Data: []byte(`{"text":""}`)},
		{ContentType: stream.TypeTokens, Tokenizer: "sha256:bytes"},
		{ContentType: stream.TypeTokens, Tokenizer: "sha256:bytes", Data: stream.AppendTokens(nil, []int32{testEnd})},
		{ContentType: stream.TypeTokens, Tokenizer: "sha256:bytes", Data: stream.AppendTokens(nil, []int32{1, testEnd})},
	}
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), publishable...)
	src := openSource(t, l, 1)
	for range 4 {
		if d := nextDoc(t, src); d.Skip != plan.SkipEmpty || d.Len() > 0 || d.ID != 0 {
			t.Errorf("document %+v, want it skipped as empty", d)
		}
	}
	if d := nextDoc(t, src); d.Skip != "" || d.Len() != 2 {
		t.Errorf("document %+v, want two tokens", d)
	}
	if st := src.Status(); st.Empty != 4 || st.Undecoded != 0 {
		t.Errorf("%d empty and %d undecoded are counted, want 4 and 0", st.Empty, st.Undecoded)
	}
}

// A message with the headers of a server's status message must not be taken for one.
func TestReader_DocumentWithStatusHeadersIsRead(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	for _, status := range []string{"100", "404", "408", "409", "503"} {
		m := nats.NewMsg("docs.odd")
		m.Header.Set("Status", status)
		m.Header.Set("Description", "Consumer Deleted")
		if _, err := srv.Store().JetStream().PublishMsg(natstest.Context(t), m); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Publish(t, srv.Store(), natstest.Documents(6, 1)...)
	src := openSource(t, l, 1)
	for range 5 {
		if d := nextDoc(t, src); d.Skip != plan.SkipEmpty {
			t.Errorf("document %+v, want it skipped as empty", d)
		}
	}
	checkCounted(t, src, 6, 1)
	if info, err := l.Describe(natstest.Context(t), 2); err != nil || info.Bytes != 0 || info.Subject != "docs.odd" {
		t.Errorf("description: %+v, %v", info, err)
	}
}

// A message with headers that no client library writes, sent over a bare connection, becomes a dead letter.
func TestDeadLetters_MalformedHeaders(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 1)...) // a cluster may lose a message to a new stream
	rawPublish(t, natstest.URL(srv.Store()), "docs.raw", "NATS/1.0\r\nno colon here\r\n\r\n", "payload")
	natstest.Eventually(t, "the message is stored", func() bool {
		st, err := srv.Store().JetStream().Stream(natstest.Context(t), srv.Store().Config().Name)
		return err == nil && st.CachedInfo().State.LastSeq == 2
	})
	natstest.Publish(t, srv.Store(), natstest.Documents(3, 1)...)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 1)
	if d := nextDoc(t, src); d.Sequence != 2 || d.Skip != plan.SkipUndecodable {
		t.Errorf("document %+v, want it skipped as undecodable", d)
	}
	checkCounted(t, src, 3, 1)
	m := deadLetters(t, srv.Store())["2"]
	if m == nil || m.Header.Get(deadletter.HeaderReason) != "BAD_HEADERS" || string(m.Data) != "payload" {
		t.Errorf("dead letter is %+v", m)
	}
}

// A dead-letter stream that rejects messages must not block the run. Its letters are stored once it accepts messages
// again.
func TestDeadLetters_RejectingStreamDoesNotBlockReader(t *testing.T) {
	srv := natstest.Start(t)
	l, s := openLog(t, srv.Store()), srv.Store()
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	sealed := cfg
	sealed.MaxMsgSize = 1
	if _, err := s.JetStream().UpdateStream(natstest.Context(t), sealed); err != nil {
		t.Fatal(err)
	}
	const n = 200
	for i := range n {
		natstest.Publish(t, s, stream.Message{ContentType: "image/png", Data: []byte(strconv.Itoa(i))})
	}
	natstest.Publish(t, s, natstest.Documents(n+1, 1)...)
	src := openSource(t, l, 1)
	for range n {
		if d := nextDoc(t, src); d.Skip != plan.SkipUndecodable {
			t.Fatalf("document %+v, want it skipped as undecodable", d)
		}
	}
	checkCounted(t, src, n+1, 1)
	if c := l.DeadLetters(); c.Stored != 0 || c.Failed == 0 || c.Dropped != 0 {
		t.Errorf("dead letters are counted as %+v", c)
	}
	if _, err := s.JetStream().UpdateStream(natstest.Context(t), cfg); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all dead letters are stored", func() bool { return l.DeadLetters().Stored == n })
	letters := deadLetters(t, s)
	for i := range n {
		if m := letters[strconv.Itoa(i+1)]; m == nil || string(m.Data) != strconv.Itoa(i) ||
			m.Header.Get("Original-Content-Type") != "image/png" {
			t.Errorf("dead letter of sequence %d: %+v", i+1, m)
		}
	}
}

// rawPublish sends one message with any header block, and waits until the server has received it.
func rawPublish(t testing.TB, url, subject, header, data string) {
	t.Helper()
	at, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	token, _ := at.User.Password()
	fmt.Fprintf(conn,
		"CONNECT {\"verbose\":false,\"headers\":true,\"auth_token\":%q}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n",
		token, subject, len(header), len(header)+len(data), header, data)
	for answers := bufio.NewScanner(conn); answers.Scan(); {
		if answers.Text() == "PONG" {
			return
		}
	}
	t.Fatal("the server did not answer")
}

// A large letter is truncated and leaves room for others.
func TestDeadLetters_LargeLetterIsTruncated(t *testing.T) {
	srv := natstest.Start(t, func(c *stream.Config) { c.DeadLetterBytes = 1 << 20 })
	l := openLog(t, srv.Store())
	bad := func(n int) stream.Message {
		return stream.Message{ContentType: stream.TypeJSON, Data: []byte(strings.Repeat("x", n))}
	}
	natstest.Publish(t, srv.Store(), bad(10), bad(2<<20), bad(30))
	source := openSource(t, l, 1)
	for range 3 {
		nextDoc(t, source)
	}
	natstest.Eventually(t, "the letters are there", func() bool { return len(deadLetters(t, srv.Store())) == 3 })
}
