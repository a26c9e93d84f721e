package endtoend_test

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/api"
	"loaderd/internal/daemon"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/packonline"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// These tests check the promise end to end on real parts: real text into a real JetStream server, through the daemon,
// out of real Flight sockets.

func TestRun_EveryTokenArrivesOnceAsInLedger(t *testing.T) {
	messages := daemontest.GoSource(t, 300)
	for _, x := range []struct {
		method string
		atom   float64
	}{{"bfd", 1}, {"concat", 0.5}, {"pad", 2}, {"splice", 1}} {
		t.Run(x.method, func(t *testing.T) {
			c := daemontest.Settings(t, "")
			c.Plan.Packing.Method, c.Plan.Packing.Atom = x.method, x.atom
			d := daemontest.Start(t, c)
			daemontest.Publish(t, natstest.URL(d.Store()), messages)
			daemontest.Seal(t, d)
			one := daemontest.ReadAll(t, d.FlightURI(), 1)
			daemontest.CheckTokens(t, one, messages)
			for _, n := range []int{2, 4} {
				if other := daemontest.ReadAll(t, d.FlightURI(), n); !reflect.DeepEqual(other, one) {
					t.Errorf("%d ranks got other rows than one", n)
				}
			}
			for i, b := range one {
				s, err := d.Run().Step(t.Context(), uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				for k, row := range s.Rows {
					var pieces []api.Piece
					for _, p := range row {
						pieces = append(pieces, api.Piece{Sequence: p.Doc, Start: p.Start, Length: p.Length})
					}
					if !slices.Equal(pieces, b.Documents[k]) {
						t.Fatalf("step %d row %d: the ledger has %v, the batch %v", i, k, pieces, b.Documents[k])
					}
				}
			}
		})
	}
}

// Two runs over equal logs differ in everything that must not affect the steps: workers, buffers, cache, steps
// planned ahead, readers.
func TestRun_EqualLogsGiveIdenticalBytes(t *testing.T) {
	messages := daemontest.GoSource(t, 200)
	var runs [2][]flightclient.Batch
	for i := range runs {
		c := daemontest.Settings(t, "")
		if i == 1 {
			c.Stream.Workers, c.Stream.BufferBytes = 1, 1<<20
			c.Serve.Ahead, c.Serve.CacheBytes, c.Serve.CheckpointSteps = 1, 1<<20, 0
		}
		d := daemontest.Start(t, c)
		if i == 1 { // documents arrive one by one while a rank reads
			go func() {
				for _, m := range messages {
					daemontest.Publish(t, natstest.URL(d.Store()), []stream.Message{m})
				}
				daemontest.Seal(t, d)
			}()
		} else {
			daemontest.Publish(t, natstest.URL(d.Store()), messages)
			daemontest.Seal(t, d)
		}
		runs[i] = daemontest.ReadAll(t, d.FlightURI(), 1+i)
	}
	if !reflect.DeepEqual(runs[0], runs[1]) {
		t.Error("the runs differ")
	}
}

func TestRestart_ContinuesSameSteps(t *testing.T) {
	for name, change := range map[string]func(*packonline.Config){
		"bucket":                func(c *packonline.Config) { c.Method = "bucket" },
		"splice by rare tokens": func(c *packonline.Config) { c.Method, c.Splice.PathBonus = "splice", 50 },
		"splice by folders": func(c *packonline.Config) {
			c.Method, c.Splice.Retriever, c.Splice.Order = "splice", "repo", "shuffle"
		},
	} {
		t.Run(name, func(t *testing.T) { restartInTheMiddle(t, change) })
	}
}

func restartInTheMiddle(t *testing.T, change func(*packonline.Config)) {
	messages := daemontest.GoSource(t, 300)
	c := daemontest.Settings(t, "")
	change(&c.Plan.Packing)
	d := daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(d.Store()), messages)
	daemontest.Seal(t, d)
	want := daemontest.ReadAll(t, d.FlightURI(), 1)

	c = daemontest.Settings(t, "")
	change(&c.Plan.Packing)
	var got []flightclient.Batch
	for i := 0; len(got) < len(want); i++ {
		d := daemontest.Start(t, c)
		if from := i * 100; from < len(messages) {
			daemontest.Publish(t, natstest.URL(d.Store()), messages[from:from+100])
		} else {
			daemontest.Seal(t, d)
		}
		n := uint64(len(want)-len(got)+3) / 4 // a quarter of the rest, or the whole stream
		if i < 3 {
			n = 5
		}
		for _, b := range daemontest.Read(t, d.FlightURI(), api.Ticket{Step: uint64(len(got)), Steps: n}) {
			b.Meta = api.Metadata{}
			got = append(got, b)
		}
		daemontest.Stop(t, d)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("step %d differs after restarts", i)
		}
	}
}

func TestDeadLetters_InvalidMessagesDoNotStopRun(t *testing.T) {
	messages := daemontest.GoSource(t, 60)
	d := daemontest.Start(t, daemontest.Settings(t, ""))
	nc, err := nats.Connect(natstest.URL(d.Store()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	daemontest.Publish(t, natstest.URL(d.Store()), messages[:30])
	poison := []*nats.Msg{
		{Subject: "docs.x", Data: []byte(`{"text": `), Header: nats.Header{"Content-Type": {"application/json"}}},
		{Subject: "docs.x", Data: []byte(`{"text": 5}`), Header: nats.Header{"Content-Type": {"application/json"}}},
		{Subject: "docs.x", Data: bytes.Repeat([]byte{1}, 7),
			Header: nats.Header{"Content-Type": {"application/vnd.loaderd.tokens"}}},
		{Subject: "docs.x", Data: []byte("%PDF"), Header: nats.Header{"Content-Type": {"application/pdf"}}},
	}
	for _, m := range poison {
		if _, err := js.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	daemontest.Publish(t, natstest.URL(d.Store()), messages[30:])
	daemontest.Seal(t, d)
	steps := daemontest.ReadAll(t, d.FlightURI(), 1)
	documents := map[uint64]bool{}
	for _, b := range steps {
		for _, row := range b.Documents {
			for _, p := range row {
				documents[p.Sequence] = true
			}
		}
	}
	if len(documents) != len(messages) {
		t.Errorf("%d documents arrived, want %d", len(documents), len(messages))
	}
	info, err := js.StreamInfo("DOCS_DLQ")
	if err != nil || info.State.Msgs != uint64(len(poison)) {
		t.Errorf("dead letters: %+v, %v; want %d", info, err, len(poison))
	}
}

func TestBackpressure_FullStreamDelaysProducer(t *testing.T) {
	server := natstest.Start(t)
	c := daemontest.Settings(t, natstest.URL(server.Store()))
	c.Stream.MaxBytes = 1 << 20
	d := daemontest.Start(t, c)
	messages := daemontest.GoSource(t, 900)
	total := 0
	for _, m := range messages {
		total += len(m.Data)
	}
	if total < 2<<20 {
		t.Fatalf("%d bytes of documents do not fill the stream", total)
	}
	producer := natstest.Open(t, c.Stream)
	defer producer.Close()
	waits := make(chan string, 100)
	p, err := publish.New(t.Context(), producer, "go", publish.Options{BatchMessages: 20, OnWait: func(reason string) {
		waits <- reason
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	done := make(chan error, 1)
	go func() {
		err := p.Publish(t.Context(), messages...)
		if err == nil {
			_, err = p.Flush(t.Context())
		}
		done <- err
	}()
	if reason := <-waits; !strings.Contains(reason, "full") {
		t.Errorf("the producer waits because %q", reason)
	}
	select {
	case err := <-done:
		t.Fatalf("the producer did not wait: %v", err)
	default:
	}
	js := d.Store().JetStream()
	st, err := js.Stream(t.Context(), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	wider := st.CachedInfo().Config
	wider.MaxBytes = 1 << 30
	if _, err := js.UpdateStream(t.Context(), wider); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	daemontest.Seal(t, d)
	daemontest.CheckTokens(t, daemontest.ReadAll(t, d.FlightURI(), 2), messages)
}

// The NATS server stops in the middle and restarts. Waiting readers get the cause, then the run continues.
func TestNATS_RunContinuesAfterServerRestart(t *testing.T) {
	server := natstest.Start(t)
	c := daemontest.Settings(t, natstest.URL(server.Store()))
	c.Serve.StallTimeout = 5 * time.Second
	d := daemontest.Start(t, c)
	messages := daemontest.GoSource(t, 200)
	daemontest.Publish(t, natstest.URL(server.Store()), messages[:100])
	first := daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 2})
	server.Stop()
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Read(t.Context(), api.Ticket{Columns: daemontest.Columns}, func(flightclient.Batch) error { return nil })
	if reason := flightclient.Reason(err); !slices.Contains([]string{"SOURCE_DOWN", "PLAN_LOG_DOWN"}, reason) {
		t.Errorf("while NATS is away: %v", err)
	}
	server.Restart()
	daemontest.Eventually(t, func() bool { return d.Run().Stats().Source.DownSince.IsZero() })
	daemontest.Publish(t, natstest.URL(server.Store()), messages[100:])
	daemontest.Seal(t, d)
	steps := daemontest.ReadAll(t, d.FlightURI(), 1)
	daemontest.CheckTokens(t, steps, messages)
	for i, b := range first {
		if !slices.Equal(b.InputIDs, steps[i].InputIDs) {
			t.Errorf("step %d differs from what was read before", i)
		}
	}
}

// A second daemon of a run serves the same steps, and continues when the first one stops.
func TestTakeover_SecondDaemonContinues(t *testing.T) {
	server := natstest.Start(t)
	c := daemontest.Settings(t, natstest.URL(server.Store()))
	first := daemontest.Start(t, c)
	second := daemontest.Start(t, c)
	messages := daemontest.GoSource(t, 400)
	daemontest.Publish(t, natstest.URL(server.Store()), messages[:300])
	at := daemontest.Read(t, second.FlightURI(), api.Ticket{Steps: 3})
	for i, b := range daemontest.Read(t, first.FlightURI(), api.Ticket{Steps: 3}) {
		if !slices.Equal(b.InputIDs, at[i].InputIDs) {
			t.Errorf("step %d differs", i)
		}
	}
	daemontest.Eventually(t, func() bool { return len(second.Run().Info().Daemons) == 2 })
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := first.Stop(bounded); err != nil {
		t.Fatal(err)
	}
	daemontest.Publish(t, natstest.URL(server.Store()), messages[300:])
	daemontest.Seal(t, second)
	steps := daemontest.ReadAll(t, second.FlightURI(), 2)
	daemontest.CheckTokens(t, steps, messages)
	for i, b := range daemontest.Read(t, second.FlightURI(), api.Ticket{Steps: 3}) {
		if !slices.Equal(b.InputIDs, at[i].InputIDs) {
			t.Errorf("step %d differs from what was read before", i)
		}
	}
	c.Run = "other" // runs share a document stream
	daemontest.Start(t, c)
}

func TestDataFolder_RefusesSecondDaemon(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c := daemontest.Settings(t, "")
	daemontest.Start(t, c)
	c.Run = "other"
	if _, err := daemon.Start(t.Context(), c, log); err == nil || !strings.Contains(err.Error(), c.Stream.Dir) {
		t.Errorf("a second daemon on one folder: %v", err)
	}
}

func TestLedger_EqualsDocumentsOfStep(t *testing.T) {
	d := daemontest.Start(t, daemontest.Settings(t, ""))
	daemontest.Publish(t, natstest.URL(d.Store()), daemontest.GoSource(t, 60))
	daemontest.Seal(t, d)
	b := daemontest.ReadAll(t, d.FlightURI(), 1)[0]
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var page struct{ Rows [][]api.Piece }
	if err := client.Do(t.Context(), "ledger", map[string]any{"step": 0}, &page); err != nil {
		t.Fatal(err)
	}
	for _, row := range b.Documents { // the column has no names
		for i := range row {
			row[i].Source = "docs"
		}
	}
	if !reflect.DeepEqual(page.Rows, b.Documents) {
		t.Errorf("the ledger has %+v, the batch %+v", page.Rows, b.Documents)
	}
}

// An empty stream ends immediately for every rank, and a stream with one document gives one padded step.
func TestSeal_EmptyAndOneDocumentStreamsEnd(t *testing.T) {
	for n := range 2 {
		d := daemontest.Start(t, daemontest.Settings(t, ""))
		messages := daemontest.GoSource(t, n)
		if n > 0 {
			daemontest.Publish(t, natstest.URL(d.Store()), messages)
		}
		daemontest.Seal(t, d)
		steps := daemontest.ReadAll(t, d.FlightURI(), 2)
		daemontest.CheckTokens(t, steps, messages)
		if n == 0 && len(steps) != 0 {
			t.Errorf("an empty stream gives %d steps", len(steps))
		}
	}
}

// A document of the maximum message size is delivered whole.
func TestRun_LargestDocumentIsDelivered(t *testing.T) {
	d := daemontest.Start(t, daemontest.Settings(t, ""))
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 30_000_000/44)
	messages := []stream.Message{{ID: "small", Data: []byte("before")}, {ID: "large", Data: text},
		{ID: "after", Data: []byte("behind")}}
	daemontest.Publish(t, natstest.URL(d.Store()), messages)
	daemontest.Seal(t, d)
	daemontest.CheckTokens(t, daemontest.ReadAll(t, d.FlightURI(), 1), messages)
}
