package messages_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// reconnectWait is the longest pause of these tests' clients.
const reconnectWait = 200 * time.Millisecond

// dial connects to a JetStream server of this test, whose stream LOG stores log.> and has the settings that edit
// makes.
func dial(t *testing.T, edit func(*jetstream.StreamConfig)) (*conn.Client, jetstream.Stream) {
	t.Helper()
	url := "nats://" + natstest.StartPlain(t, &server.Options{JetStream: true})
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, err := conn.Dial(ctx, conn.Options{URL: url, ReconnectWait: reconnectWait}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config := jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log.>"}, AllowDirect: true, AllowAtomicPublish: true}
	edit(&config)
	st, err := c.JetStream().CreateStream(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return c, st
}

func asIs(*jetstream.StreamConfig) {}

func numbered(n int) (out []*nats.Msg) {
	for i := range n {
		out = append(out, &nats.Msg{Subject: "log.a", Data: fmt.Appendf(nil, "message %d", i+1)})
	}
	return out
}

func TestCommit_StoresAllOrNone(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	for _, careful := range []bool{false, true} {
		for _, n := range []int{1, 2, messages.MaxBatch} {
			info, err := st.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			want := info.State.LastSeq + uint64(n)
			if ack, err := messages.Commit(ctx, c, careful, numbered(n)...); err != nil || ack.Sequence != want ||
				ack.Duplicate {
				t.Fatalf("%d messages, careful %v: %+v, %v, want sequence %d", n, careful, ack, err, want)
			}
			late := numbered(n)
			late[0].Header = nats.Header{jetstream.ExpectedLastSeqHeader: {"7777"}}
			if _, err := messages.Commit(ctx, c, careful, late...); !conn.IsWrongLastSequence(err) {
				t.Errorf("%d messages behind a sequence that is not the last, careful %v: %v", n, careful, err)
			}
			if info, err = st.Info(ctx); err != nil || info.State.LastSeq != want {
				t.Errorf("what is refused is stored: %d, %v, want %d", info.State.LastSeq, err, want)
			}
		}
	}
	again := numbered(1)
	again[0].Header = nats.Header{jetstream.MsgIDHeader: {"id"}}
	first, err := messages.Commit(ctx, c, false, again...)
	if err != nil {
		t.Fatal(err)
	}
	if ack, err := messages.Commit(ctx, c, false, again...); err != nil || !ack.Duplicate ||
		ack.Sequence != first.Sequence {
		t.Errorf("a message that is there: %+v, %v, want it at %d", ack, err, first.Sequence)
	}
}

// The server rejects a batch beyond its limit in the response to the first message. Its response to the last message
// only states that it has no batch. A careful commit returns the first.
func TestCommit_CarefulReturnsRejectionReason(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, _ := dial(t, asIs)
	for i := range 60 { // the server keeps 50 batches of a stream open
		m := numbered(1)[0]
		m.Header = nats.Header{"Nats-Batch-Id": {fmt.Sprint("open-", i)}, "Nats-Batch-Sequence": {"1"}}
		if _, err := c.Conn().RequestMsgWithContext(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	for careful, want := range map[bool]jetstream.ErrorCode{false: conn.CodeBatchIncomplete,
		true: conn.CodeTooManyInflight} {
		_, err := messages.Commit(ctx, c, careful, numbered(3)...)
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.ErrorCode != want || !conn.IsTransient(err) {
			t.Errorf("careful %v: %v, want code %d", careful, err, want)
		}
	}
}

func TestGet_ReturnsMessagesUnchanged(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	sent := numbered(3)
	sent[1].Header = nats.Header{"X-Mine": {"kept"}}
	// as passed on from a get elsewhere
	sent[2].Header = nats.Header{jetstream.SequenceHeader: {"77"}, jetstream.SubjectHeader: {"log.other"}}
	for _, m := range sent {
		if _, err := messages.Commit(ctx, c, false, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.DeleteMsg(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]string{2: "message 2", 3: "message 3"} {
		m, err := messages.Get(ctx, c, st, seq)
		if err != nil || string(m.Data) != want || m.Subject != "log.a" || m.Sequence != seq || m.Time.IsZero() {
			t.Errorf("message %d is %+v, %v", seq, m, err)
		}
	}
	if m, err := messages.Get(ctx, c, st, 2); err != nil || m.Header.Get("X-Mine") != "kept" {
		t.Errorf("a header is lost: %+v, %v", m, err)
	}
	for _, seq := range []uint64{1, 4} {
		if m, err := messages.Get(ctx, c, st, seq); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("message %d, which is not there, is %+v, %v", seq, m, err)
		}
	}
	if _, err := messages.GetBatch(ctx, c, "LOG", 4, 10, 1<<20); !errors.Is(err, conn.ErrReplicaLagging) ||
		!conn.IsTransient(err) {
		t.Errorf("of messages that are not there: %v", err)
	}
	if all, err := messages.GetBatch(ctx, c, "LOG", 2, 10, 1<<20); err != nil || len(all) != 2 ||
		string(all[1]) != "message 3" {
		t.Errorf("a batch is %q, %v", all, err)
	}
	if few, err := messages.GetBatch(ctx, c, "LOG", 2, 10, 1); err != nil || len(few) != 1 {
		t.Errorf("of one byte a batch is %q, %v", few, err)
	}
}

// A lagging replica reports that a message does not exist. Get then requests it from the leader, which has it.
func TestGet_MissingMessageIsRequestedFromLeader(t *testing.T) {
	url := "nats://" + natstest.StartPlain(t, &server.Options{})
	cluster, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	missing := nats.NewMsg("")
	missing.Header.Set("Status", "404")
	says := func(text string) *nats.Msg { return &nats.Msg{Data: []byte(text)} }
	for subject, answer := range map[string]*nats.Msg{
		"INFO":            says(`{"memory":0}`),
		"STREAM.INFO.LOG": says(`{"config":{"name":"LOG","allow_direct":true},"state":{"last_seq":9}}`),
		"DIRECT.GET.LOG":  missing,
		"STREAM.MSG.GET.LOG": says(`{"message":{"subject":"log.a","seq":9,"hdrs":"TkFUUy8xLjANClgtTWluZToga2VwdA0KDQo=",` +
			`"data":"dGhlcmU=","time":"2026-01-02T03:04:05Z"}}`),
	} {
		if _, err := cluster.Subscribe("$JS.API."+subject, func(m *nats.Msg) {
			if err := m.RespondMsg(answer); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, err := conn.Dial(ctx, conn.Options{URL: url, ReconnectWait: reconnectWait}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	st, err := c.JetStream().Stream(ctx, "LOG")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := st.GetMsg(ctx, 9); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Fatalf("the replica has it: %+v, %v", m, err)
	}
	m, err := messages.Get(ctx, c, st, 9)
	if err != nil || string(m.Data) != "there" || m.Subject != "log.a" || m.Header.Get("X-Mine") != "kept" ||
		m.Time.Year() != 2026 {
		t.Errorf("message 9 is %+v, %v", m, err)
	}
}

func TestEachHeader_ReadsFromSequenceToLimit(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	seen := func(subject string, first uint64, most int) (out []uint64) {
		t.Helper()
		err := messages.EachHeader(ctx, c, st, subject, first, 99, func(sequence uint64, h nats.Header) bool {
			if h.Get("X-Place") != fmt.Sprint(sequence) {
				t.Errorf("message %d has headers %v", sequence, h)
			}
			out = append(out, sequence)
			return len(out) < most
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := seen("", 1, 9); got != nil {
		t.Errorf("in an empty stream it sees %v", got)
	}
	for i := range 6 {
		m := &nats.Msg{Subject: "log." + string("ab"[i%2]), Header: nats.Header{"X-Place": {fmt.Sprint(i + 1)}},
			Data: []byte("data")}
		if _, err := messages.Commit(ctx, c, false, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		subject string
		first   uint64
		most    int
		want    string
	}{{"", 0, 9, "[1 2 3 4 5 6]"}, {"", 5, 9, "[5 6]"}, {"", 2, 2, "[2 3]"}, {"log.b", 1, 9, "[2 4 6]"},
		{"log.a", 2, 9, "[3 5]"}, {"log.b", 7, 9, "[]"}} {
		if got := fmt.Sprint(seen(test.subject, test.first, test.most)); got != test.want {
			t.Errorf("of %q from %d it sees %s, want %s", test.subject, test.first, got, test.want)
		}
	}
}

// Following returns the sequence itself, or the next one if that is deleted. A batch returns the same gap as an
// error.
func TestFollowing_ReturnsSequenceOrNext(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	sent := numbered(4)
	sent[2].Header = nats.Header{jetstream.LastSequenceHeader: {"77"}, "Status": {"204"}} // as at the end of a response
	for _, m := range sent {
		if _, err := messages.Commit(ctx, c, false, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.DeleteMsg(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]uint64{1: 1, 2: 3, 3: 3, 4: 4, 5: 0} {
		if got, err := messages.NextSequence(ctx, c, "LOG", seq); err != nil || got != want {
			t.Errorf("behind %d follows %d, %v, want %d", seq, got, err, want)
		}
	}
	if _, err := messages.GetBatch(ctx, c, "LOG", 1, 3, 1<<20); err == nil || conn.IsTransient(err) {
		t.Errorf("a batch with a hole: %v", err)
	}
	if _, err := messages.NextSequence(ctx, c, "OTHER", 1); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("of no stream: %v", err)
	}
}

func TestBarrier_ChangesNothing(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	if _, err := messages.Commit(ctx, c, false, numbered(3)...); err != nil {
		t.Fatal(err)
	}
	if err := messages.Barrier(ctx, c, st); err != nil {
		t.Error(err)
	}
	if info, err := st.Info(ctx); err != nil || info.State.Msgs != 3 || info.State.FirstSeq != 1 {
		t.Errorf("the stream holds %+v, %v, want its 3 messages", info, err)
	}
	if c.Clustered() {
		t.Error("a server that stands alone is a member of a cluster")
	}
}

// GetRange returns the messages between two sequences, except those with headers like a response's. Get returns
// these.
func TestGetRange_ExcludesResponseLikeHeaders(t *testing.T) {
	ctx := natstest.TimeoutContext(t, time.Minute)
	c, st := dial(t, asIs)
	sent := numbered(8)
	sent[1].Header = nats.Header{"X-Mine": {"kept"}, "Status": {"404"}}
	sent[2].Header = nats.Header{jetstream.SequenceHeader: {"4"}, "Status": {"204"}, jetstream.LastSequenceHeader: {"5"}}
	for _, m := range sent {
		if _, err := messages.Commit(ctx, c, false, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.DeleteMsg(ctx, 5); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		first, last uint64
		bytes       int
		want        []uint64
		next        uint64
	}{
		{1, 4, 1 << 20, []uint64{1, 2, 4}, 5},
		{4, 6, 1 << 20, []uint64{4, 6}, 8}, // over the gap, one sequence after the range was covered
		{4, 8, 1, []uint64{4}, 5},
		{9, 20, 1 << 20, nil, 21},
	} {
		found, next, err := messages.GetRange(ctx, c, "LOG", tt.first, tt.last, tt.bytes)
		var got []uint64
		for _, m := range found {
			got = append(got, m.Sequence)
			if string(m.Data) != fmt.Sprint("message ", m.Sequence) || m.Subject != "log.a" || m.Time.IsZero() ||
				m.Sequence == 2 && m.Header.Get("X-Mine") != "kept" {
				t.Errorf("message %d is %+v", m.Sequence, m)
			}
		}
		if err != nil || !slices.Equal(got, tt.want) || next != tt.next {
			t.Errorf("range %d to %d is %v, next %d, %v; want %v, next %d", tt.first, tt.last, got, next, err, tt.want, tt.next)
		}
	}
}
