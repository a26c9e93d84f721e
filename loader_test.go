package loaderd_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/internal/natstest"
	"loaderd/internal/reader"
	"loaderd/stream"
	"loaderd/tokenizer"
)

// The promise, end to end and on real parts: real text into a real JetStream server, through the daemon, out of real Flight sockets.

// goSource returns real documents: files of Go's own library.
func goSource(t testing.TB, n int) []stream.Message {
	t.Helper()
	root, err := corpus.GoSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []stream.Message
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || len(out) == n {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if len(data) > 0 {
			out = append(out, stream.Message{ID: rel, Path: rel, Data: data[:min(len(data), 20_000)]})
		}
		return err
	})
	if err != nil || len(out) < n {
		t.Fatalf("%d Go files under %s, want %d: %v", len(out), root, n, err)
	}
	return out
}

// settings of a small run on free ports.
func settings(t testing.TB, url string) config.Config {
	t.Helper()
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Stream.URL = t.TempDir(), "127.0.0.1:0", url
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 1<<30, 64<<20, 256<<20
	c.Stream.ReconnectWait = 100 * time.Millisecond
	c.Flight.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Plan.Packing.Buckets, c.Plan.Packing.Pool, c.Plan.Packing.MaxAge = []int{512}, 128, 512
	c.Plan.Shuffle.Window, c.Plan.Steps.Rows = 32, 8
	c.Serve.Checkpoint = 16
	return c
}

func start(t testing.TB, c config.Config) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d
}

func stop(t testing.TB, d *daemon.Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func publish(t testing.TB, url string, messages []stream.Message) stream.Published {
	t.Helper()
	c := natstest.Config(t)
	c.URL = url
	p, err := natstest.Open(t, c).NewPublisher(t.Context(), "go", stream.PublishOptions{BatchMessages: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Publish(t.Context(), messages...); err != nil {
		t.Fatal(err)
	}
	done, err := p.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

var everything = []string{"input_ids", "segment_ids", "documents"}

// read returns the batches of one rank: from a step on, as many as asked for, 0 for all.
func read(t testing.TB, uri string, ticket reader.Ticket) []reader.Batch {
	t.Helper()
	client, err := reader.Open(uri, reader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ticket.Columns = everything
	var out []reader.Batch
	err = client.Read(t.Context(), ticket, func(b reader.Batch) error {
		out = append(out, b)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

// world reads all ranks at a time and puts each step's rows together.
func world(t *testing.T, uri string, n int) []reader.Batch {
	t.Helper()
	ranks := make([][]reader.Batch, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { ranks[rank] = read(t, uri, reader.Ticket{Rank: rank, World: n}) })
	}
	wg.Wait()
	var out []reader.Batch
	for step := range ranks[0] {
		var whole reader.Batch
		for rank := range n {
			if len(ranks[rank]) != len(ranks[0]) {
				t.Fatalf("rank %d got %d steps, rank 0 %d", rank, len(ranks[rank]), len(ranks[0]))
			}
			b := ranks[rank][step]
			if b.Meta.Step != uint64(step) || b.L != ranks[0][step].L || b.Rows != ranks[0][step].Rows {
				t.Fatalf("rank %d got step %d with %d rows of %d where rank 0 got step %d", rank, b.Meta.Step, b.Rows, b.L, step)
			}
			whole.L = b.L
			whole.Rows += b.Rows
			whole.InputIDs = append(whole.InputIDs, b.InputIDs...)
			whole.SegmentIDs = append(whole.SegmentIDs, b.SegmentIDs...)
			whole.Documents = append(whole.Documents, b.Documents...)
		}
		out = append(out, whole)
	}
	return out
}

// conserved checks that every token of every document came exactly once, and that segment ids say where pieces end.
func conserved(t *testing.T, steps []reader.Batch, messages []stream.Message) {
	t.Helper()
	model, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := model.EndOfText()
	encoder := model.NewEncoder()
	want := map[uint64][]int32{}
	got := map[uint64][]int32{}
	missing := 0
	for i, m := range messages {
		ids := append(encoder.Encode(nil, m.Data), end)
		want[uint64(i+1)], got[uint64(i+1)] = ids, slices.Repeat([]int32{-1}, len(ids))
		missing += len(ids)
	}
	for n, b := range steps {
		for i, pieces := range b.Documents {
			at := i * b.L
			for k, p := range pieces {
				for j := range int(p.Length) {
					id := b.InputIDs[at]
					document := got[p.Sequence]
					if where := int(p.Start) + j; where >= len(document) || document[where] != -1 {
						t.Fatalf("step %d row %d: token %d of document %d comes twice or is none", n, i, where, p.Sequence)
					} else {
						document[where] = id
					}
					if b.SegmentIDs[at] != uint16(k+1) {
						t.Fatalf("step %d row %d: segment %d where %d should be", n, i, b.SegmentIDs[at], k+1)
					}
					at++
					missing--
				}
			}
			for ; at < (i+1)*b.L; at++ {
				if b.SegmentIDs[at] != 0 || b.InputIDs[at] != end {
					t.Fatalf("step %d row %d: padding holds token %d of segment %d", n, i, b.InputIDs[at], b.SegmentIDs[at])
				}
			}
		}
	}
	if missing != 0 || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d tokens are missing, or some differ from the documents'", missing)
	}
}

// until waits for a condition that the daemon brings about.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the condition did not come true")
		}
	}
}

func seal(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	if _, err := d.Run().Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEveryTokenArrivesOnceInTheRowsOfTheLedger(t *testing.T) {
	messages := goSource(t, 300)
	for _, method := range []string{"bfd", "concat"} {
		t.Run(method, func(t *testing.T) {
			c := settings(t, "")
			c.Plan.Packing.Method = method
			d := start(t, c)
			publish(t, d.Store().ClientURL(), messages)
			seal(t, d)
			one := world(t, d.FlightURI(), 1)
			conserved(t, one, messages)
			for _, n := range []int{2, 4} {
				if other := world(t, d.FlightURI(), n); !reflect.DeepEqual(other, one) {
					t.Errorf("%d ranks got other rows than one", n)
				}
			}
			for i, b := range one {
				s, err := d.Run().Step(t.Context(), uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				for k, row := range s.Rows {
					var pieces []reader.Piece
					for _, p := range row {
						pieces = append(pieces, reader.Piece{Sequence: p.Doc, Start: p.Start, Length: p.Length})
					}
					if !slices.Equal(pieces, b.Documents[k]) {
						t.Fatalf("step %d row %d: the ledger says %v, the batch %v", i, k, pieces, b.Documents[k])
					}
				}
			}
		})
	}
}

// Two runs over equal logs differ in everything that must not matter: workers, buffers, cache, how far they plan ahead, who reads.
func TestTwoRunsAreByteIdentical(t *testing.T) {
	messages := goSource(t, 200)
	var runs [2][]reader.Batch
	for i := range runs {
		c := settings(t, "")
		if i == 1 {
			c.Stream.Workers, c.Stream.BufferBytes = 1, 1<<20
			c.Serve.Ahead, c.Serve.CacheBytes, c.Serve.Checkpoint = 1, 1<<20, 0
		}
		d := start(t, c)
		if i == 1 { // the documents come one by one while a rank already reads
			go func() {
				for _, m := range messages {
					publish(t, d.Store().ClientURL(), []stream.Message{m})
				}
				seal(t, d)
			}()
		} else {
			publish(t, d.Store().ClientURL(), messages)
			seal(t, d)
		}
		runs[i] = world(t, d.FlightURI(), 1+i)
	}
	if !reflect.DeepEqual(runs[0], runs[1]) {
		t.Error("the runs differ")
	}
}

func TestARestartInTheMiddleContinues(t *testing.T) {
	messages := goSource(t, 300)
	c := settings(t, "")
	d := start(t, c)
	publish(t, d.Store().ClientURL(), messages)
	seal(t, d)
	want := world(t, d.FlightURI(), 1)

	c = settings(t, "")
	var got []reader.Batch
	for i := 0; len(got) < len(want); i++ {
		d := start(t, c)
		if from := i * 100; from < len(messages) {
			publish(t, d.Store().ClientURL(), messages[from:from+100])
		} else {
			seal(t, d)
		}
		n := uint64(len(want)-len(got)+3) / 4 // a quarter of what is left, or all that the stream holds
		if i < 3 {
			n = 5
		}
		for _, b := range read(t, d.FlightURI(), reader.Ticket{Step: uint64(len(got)), Steps: n}) {
			b.Meta = reader.Meta{}
			got = append(got, b)
		}
		stop(t, d)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("step %d differs after restarts", i)
		}
	}
}

func TestPoisonDoesNotStopTheRun(t *testing.T) {
	messages := goSource(t, 60)
	d := start(t, settings(t, ""))
	nc, err := nats.Connect(d.Store().ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	publish(t, d.Store().ClientURL(), messages[:30])
	poison := []*nats.Msg{
		{Subject: "docs.x", Data: []byte(`{"text": `), Header: nats.Header{"Content-Type": {"application/json"}}},
		{Subject: "docs.x", Data: []byte(`{"text": 5}`), Header: nats.Header{"Content-Type": {"application/json"}}},
		{Subject: "docs.x", Data: bytes.Repeat([]byte{1}, 7), Header: nats.Header{"Content-Type": {"application/vnd.loaderd.tokens"}}},
		{Subject: "docs.x", Data: []byte("%PDF"), Header: nats.Header{"Content-Type": {"application/pdf"}}},
	}
	for _, m := range poison {
		if _, err := js.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, d.Store().ClientURL(), messages[30:])
	seal(t, d)
	steps := world(t, d.FlightURI(), 1)
	documents := map[uint64]bool{}
	for _, b := range steps {
		for _, row := range b.Documents {
			for _, p := range row {
				documents[p.Sequence] = true
			}
		}
	}
	if len(documents) != len(messages) {
		t.Errorf("%d documents came, want %d", len(documents), len(messages))
	}
	info, err := js.StreamInfo("DOCS_DEAD")
	if err != nil || info.State.Msgs != uint64(len(poison)) {
		t.Errorf("dead letters: %+v, %v; want %d", info, err, len(poison))
	}
}

func TestAFullStreamMakesTheProducerWait(t *testing.T) {
	server := natstest.Start(t)
	c := settings(t, server.Store().ClientURL())
	c.Stream.MaxBytes = 1 << 20
	d := start(t, c)
	messages := goSource(t, 900)
	total := 0
	for _, m := range messages {
		total += len(m.Data)
	}
	if total < 2<<20 {
		t.Fatalf("%d bytes of documents do not fill the stream", total)
	}
	producer := natstest.Open(t, c.Stream)
	waits := make(chan string, 100)
	p, err := producer.NewPublisher(t.Context(), "go", stream.PublishOptions{BatchMessages: 20, OnWait: func(reason string) { waits <- reason }})
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
	seal(t, d)
	conserved(t, world(t, d.FlightURI(), 2), messages)
}

// The NATS server goes away in the middle and comes back: readers that wait get the cause, then the run goes on.
func TestNATSGoesAwayAndComesBack(t *testing.T) {
	server := natstest.Start(t)
	c := settings(t, server.Store().ClientURL())
	c.Serve.Stall = 2 * time.Second
	d := start(t, c)
	messages := goSource(t, 200)
	publish(t, server.Store().ClientURL(), messages[:100])
	first := read(t, d.FlightURI(), reader.Ticket{Steps: 2})
	server.Stop()
	client, err := reader.Open(d.FlightURI(), reader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Read(t.Context(), reader.Ticket{Columns: everything}, func(reader.Batch) error { return nil })
	if reason := reader.Reason(err); !slices.Contains([]string{"SOURCE_DOWN", "PLAN_LOG_DOWN"}, reason) {
		t.Errorf("while NATS is away: %v", err)
	}
	server.Restart()
	until(t, func() bool { return d.Run().Stats().Source.DownSince.IsZero() })
	publish(t, server.Store().ClientURL(), messages[100:])
	seal(t, d)
	steps := world(t, d.FlightURI(), 1)
	conserved(t, steps, messages)
	for i, b := range first {
		if !slices.Equal(b.InputIDs, steps[i].InputIDs) {
			t.Errorf("step %d differs from what was read before", i)
		}
	}
}

func TestASecondDaemonIsRefused(t *testing.T) {
	server := natstest.Start(t)
	c := settings(t, server.Store().ClientURL())
	start(t, c)
	log := slog.New(slog.DiscardHandler)
	_, err := daemon.Start(t.Context(), c, log)
	var led *stream.LedError
	if !errors.As(err, &led) || led.Holder.PID != os.Getpid() {
		t.Errorf("a second daemon of one run: %v", err)
	}
	c.Run = "other" // runs share a document stream
	start(t, c)

	c = settings(t, "")
	start(t, c)
	c.Run = "other"
	if _, err := daemon.Start(t.Context(), c, log); err == nil || !strings.Contains(err.Error(), c.Stream.Dir) {
		t.Errorf("a second daemon on one folder: %v", err)
	}
}

func TestALedgerActionTellsTheStep(t *testing.T) {
	d := start(t, settings(t, ""))
	publish(t, d.Store().ClientURL(), goSource(t, 60))
	seal(t, d)
	b := world(t, d.FlightURI(), 1)[0]
	client, err := reader.Open(d.FlightURI(), reader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var page struct{ Rows [][]reader.Piece }
	if err := client.Do(t.Context(), "ledger", map[string]any{"step": 0}, &page); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(page.Rows, b.Documents) {
		t.Errorf("the ledger says %+v, the batch %+v", page.Rows, b.Documents)
	}
}

// An empty stream ends at once for every rank, and a stream with one document gives one padded step.
func TestTinyStreamsEnd(t *testing.T) {
	for n := range 2 {
		d := start(t, settings(t, ""))
		messages := goSource(t, n)
		if n > 0 {
			publish(t, d.Store().ClientURL(), messages)
		}
		seal(t, d)
		steps := world(t, d.FlightURI(), 2)
		conserved(t, steps, messages)
		if n == 0 && len(steps) != 0 {
			t.Errorf("an empty stream gives %d steps", len(steps))
		}
	}
}

// A document as large as a message may be goes through whole.
func TestALargeDocument(t *testing.T) {
	d := start(t, settings(t, ""))
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 30_000_000/44)
	messages := []stream.Message{{ID: "small", Data: []byte("before")}, {ID: "large", Data: text}, {ID: "after", Data: []byte("behind")}}
	publish(t, d.Store().ClientURL(), messages)
	seal(t, d)
	conserved(t, world(t, d.FlightURI(), 1), messages)
}
