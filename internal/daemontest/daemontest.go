// Package daemontest runs daemons in the test process and reads their batches.
package daemontest

import (
	"context"
	"fmt"
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

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/corpus/gosource"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/objecttest"
	"loaderd/internal/testscale"
	"loaderd/loader/backend"
	"loaderd/loader/mixture"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/publish"
)

// GoSource returns n real documents: source files of Go's standard library.
func GoSource(t testing.TB, n int) []stream.Message {
	t.Helper()
	root, err := gosource.Dir(t.Context())
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

// gpt2 returns the model that the daemons of these tests share, so that it is loaded once.
var gpt2 = sync.OnceValue(func() docstream.Tokenization {
	t, _, err := daemon.LoadTokenizer(config.Default().Tokenizer)
	if err != nil {
		panic(err)
	}
	return t
})

// Settings returns the configuration of a small run on free ports. An empty url is an embedded server.
func Settings(t testing.TB, url string) config.Config {
	t.Helper()
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Stream.URL = t.TempDir(), "127.0.0.1:0", url
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 1<<30, 64<<20, 256<<20
	c.Stream.ReconnectWait = 100 * time.Millisecond
	c.Flight.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // these tests do not authenticate clients
	c.Plan.Packing.Buckets, c.Plan.Packing.Pool, c.Plan.Packing.MaxAge = []int{512}, 128, 512
	c.Plan.Shuffle.Window, c.Plan.Steps.Rows = 32, 8
	c.Serve.CheckpointSteps = 16
	c.Serve.FirstStepQuiet, c.Serve.FirstStepDocuments = 0, 0 // a plan holds only flushes that a test requests
	return c
}

// Start starts a daemon, which stops with the test.
func Start(t testing.TB, c config.Config) *daemon.Daemon {
	t.Helper()
	gpt2()
	d, err := daemon.Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, d) })
	return d
}

// Stop stops a daemon.
func Stop(t testing.TB, d *daemon.Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Publish publishes messages to the server at url.
func Publish(t testing.TB, url string, messages []stream.Message) publish.Committed {
	t.Helper()
	c := natstest.Config(t)
	c.URL = url
	store := natstest.Open(t, c)
	defer store.Close()
	p, err := publish.New(t.Context(), store, "go", publish.Options{BatchMessages: 50})
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

// Columns are the columns that Read and ReadAll request.
var Columns = []string{"input_ids", "segment_ids", "documents"}

// Read returns the batches of one rank from the ticket's step on: ticket.Steps of them, or all if it is 0.
func Read(t testing.TB, uri string, ticket api.Ticket) []flightclient.Batch {
	t.Helper()
	client, err := flightclient.Open(uri, flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ticket.Columns = Columns
	var out []flightclient.Batch
	err = client.Read(t.Context(), ticket, func(b flightclient.Batch) error {
		out = append(out, b)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

// ReadAll reads all ranks concurrently and joins the rows of each step.
func ReadAll(t *testing.T, uri string, n int) []flightclient.Batch {
	t.Helper()
	ranks := make([][]flightclient.Batch, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { ranks[rank] = Read(t, uri, api.Ticket{Rank: rank, World: n}) })
	}
	wg.Wait()
	var out []flightclient.Batch
	for step := range ranks[0] {
		var whole flightclient.Batch
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

// CheckTokens checks that every token of every document was read exactly once, and that segment ids mark the ends of
// spans.
func CheckTokens(t *testing.T, steps []flightclient.Batch, messages []stream.Message) {
	t.Helper()
	end := gpt2().End
	encoder := gpt2().NewEncoder()
	want := map[uint64][]int32{}
	got := map[uint64][]int32{}
	missing := 0
	for i, m := range messages {
		ids := append(encoder.EncodePart(nil, m.Data, true, true), end)
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
						t.Fatalf("step %d row %d: token %d of document %d is repeated or invalid", n, i, where, p.Sequence)
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

// Eventually waits until a condition that depends on the daemon is true.
func Eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the condition was not met")
		}
	}
}

// Seal seals the run of a daemon.
func Seal(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	if _, err := d.Run().Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// PullSettings returns the configuration of a run that pulls its documents from a hub through a stream that holds a
// part of them. With several it has two sources.
func PullSettings(t *testing.T, several bool) (config.Config, *objecttest.Hub) {
	h := objecttest.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	for i := range 6 {
		h.Put("o/n", fmt.Sprintf("web/%d.jsonl", i), objecttest.Lines(fmt.Sprintf("web%d", i), testscale.Of(250, 1200), 2000))
		h.Put("o/n", fmt.Sprintf("code/%d.jsonl", i), objecttest.Lines(fmt.Sprintf("code%d", i), 100, 2000))
	}
	c := Settings(t, "")
	c.Stream.MaxBytes = 2 << 20
	c.Serve.Retention, c.Serve.Ahead, c.Serve.CheckpointSteps = backend.RetentionPurge, 4, 4
	c.Stream.Listen, c.Flight.Listen = natstest.FreeAddress(t), natstest.FreeAddress(t)
	c.Pull.From = []string{"hf://datasets/o/n/web/*.jsonl"}
	if several {
		c.Pull.From = nil
		c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 3, Epochs: 1, Block: 32},
			"code": {Weight: 1, Epochs: 1, Block: 32}}
		c.Pull.Sources = map[string][]string{"web": {"hf://datasets/o/n/web/*.jsonl"},
			"code": {"hf://datasets/o/n/code/*.jsonl"}}
	}
	return c, h
}

// Train reads a run to its end as a training job does: it commits each step, and reconnects after a daemon has stopped.
// It returns the token ids of each step and calls step with their number.
func Train(t *testing.T, uri string, step func(n int)) (ids [][]int32) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for ended := false; !ended; {
		client, err := flightclient.Open(uri, flightclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = client.Read(t.Context(), api.Ticket{Step: uint64(len(ids)), Job: "train", Columns: []string{"input_ids"}},
			func(b flightclient.Batch) error {
				ids = append(ids, slices.Clone(b.InputIDs))
				step(len(ids))
				return client.Do(t.Context(), "commit", map[string]any{"step": len(ids), "job": "train"}, nil)
			})
		ended = err == nil
		if closed := client.Close(); closed != nil && ended {
			t.Error(closed)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d steps so far: %v", len(ids), err)
		}
	}
	return ids
}
