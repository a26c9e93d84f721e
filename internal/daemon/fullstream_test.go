package daemon

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/loader/backend"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/stream"
	publisher "loaderd/stream/publish"
)

// While a publisher waits for space in a full stream and the run waits for documents, the status names the stream and
// the daemon is not ready. Once the operator follows the advice, the daemon is ready and steps are planned.
func TestFullStream_CauseAndReadiness(t *testing.T) {
	t.Run("keep", func(t *testing.T) {
		c := settings(t)
		c.Plan.Packing, c.Plan.Shuffle.Window = config.Default().Plan.Packing, config.Default().Plan.Shuffle.Window
		c.Plan.Packing.Buckets, c.Plan.Packing.Pool = []int{1024}, 512
		c.Plan.Shuffle.Window = 32
		d, published := overfilled(t, c, 1200)
		v := fullVerdict(t, d)
		if !strings.Contains(v.Advice, "raise stream.max_bytes") {
			t.Errorf("advice %q, want that the bound is raised", v.Advice)
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
		if err := <-published; err != nil {
			t.Error(err)
		}
		readyAgain(t, d)
		batches, _ := following(t, d)
		<-batches
	})
	t.Run("purge", func(t *testing.T) {
		c := settings(t)
		c.Serve.Retention, c.Serve.CheckpointSteps = backend.RetentionPurge, 4
		d, published := overfilled(t, c, 400)
		batches, _ := following(t, d)
		var read atomic.Uint64
		go func() {
			for {
				select {
				case <-batches:
					read.Add(1)
				case <-t.Context().Done():
					return
				}
			}
		}()
		natstest.Eventually(t, "10 steps are read", func() bool { return read.Load() >= 10 })
		commit(t, d, 1)
		v := fullVerdict(t, d)
		if !strings.Contains(v.Advice, `let job "trainer" commit`) || v.Facts["committed_step"] != "1" {
			t.Errorf("advice %q, facts %v: want the job that holds the documents", v.Advice, v.Facts)
		}
		before := read.Load()
		commit(t, d, before)
		natstest.Eventually(t, "steps arrive again", func() bool { return read.Load() > before })
		if err := <-published; err != nil {
			t.Error(err)
		}
		readyAgain(t, d)
	})
}

// overfilled starts a daemon whose stream is limited to 1 MiB, and a publisher of n documents of 4 KiB. It returns
// once the publisher waits for space.
func overfilled(t *testing.T, c config.Config, n int) (d *Daemon, published chan error) {
	t.Helper()
	c.Stream.MaxBytes = 1 << 20
	d = start(t, c)
	t.Cleanup(func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	})
	producer := c.Stream
	producer.URL = natstest.URL(d.Store())
	waits, published := publishDocuments(t, producer, n)
	if reason := <-waits; !strings.Contains(reason, "full") {
		t.Fatalf("the publisher waits because %q", reason)
	}
	return d, published
}

// publishDocuments publishes n documents of 4 KiB. The channels return the reason of its wait, and its result.
func publishDocuments(t *testing.T, c stream.Config, n int) (waits chan string, published chan error) {
	t.Helper()
	store := natstest.Open(t, c)
	t.Cleanup(func() { _ = store.Close() })
	waits = make(chan string, 1000)
	p, err := publisher.New(t.Context(), store, "test",
		publisher.Options{BatchMessages: 20, OnWait: func(reason string) { waits <- reason }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	var messages []stream.Message
	for i := range n {
		m := stream.Message{ID: fmt.Sprint(i), Path: fmt.Sprint(i), ContentType: stream.TypeTokens, Tokenizer: "f"}
		for range 1000 + i%24 {
			m.Data = binary.LittleEndian.AppendUint32(m.Data, 7)
		}
		messages = append(messages, m)
	}
	published = make(chan error, 1)
	go func() {
		err := p.Publish(t.Context(), messages...)
		if err == nil {
			_, err = p.Flush(t.Context())
		}
		published <- err
	}()
	return waits, published
}

// fullVerdict waits until the daemon's status names its full stream, and checks that the daemon is not ready.
func fullVerdict(t *testing.T, d *Daemon) diagnosis.Verdict {
	t.Helper()
	natstest.Eventually(t, "the status names the full stream", func() bool {
		return d.run.Verdict().Reason == fault.StreamFull
	})
	v := d.run.Verdict()
	if v.Health != diagnosis.Failing || !strings.Contains(v.Sentence, `"DOCS" is full`) || v.Facts["stream"] != "DOCS" {
		t.Errorf("verdict %+v, want failing with the stream", v)
	}
	s := d.run.Stats().Streams
	if len(s) != 1 || !s[0].Full || s[0].MaxBytes != 1<<20 || s[0].Configured != 1<<20 || s[0].Free == nil {
		t.Errorf("streams %+v, want DOCS full", s)
	}
	if said := get(t, d.http.url()+"/readyz"); !strings.Contains(said, `"DOCS" is full`) {
		t.Errorf("/readyz: %s", said)
	}
	for _, line := range []string{`loaderd_stream_full{run=%q,source="docs",stream="DOCS"} 1`,
		`loaderd_waits{reason="STREAM_FULL",run=%q} 1`} {
		line = fmt.Sprintf(line, d.config.Run)
		if metrics := get(t, d.http.url()+"/metrics"); !strings.Contains(metrics, line) {
			t.Errorf("no line %s in the metrics", line)
		}
	}
	return v
}

func readyAgain(t *testing.T, d *Daemon) {
	t.Helper()
	natstest.Eventually(t, "the daemon is ready again", func() bool {
		r, err := http.Get(d.http.url() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // lets the client reuse the connection
			t.Fatal(err)
		}
		return r.StatusCode == http.StatusOK
	})
}

func commit(t *testing.T, d *Daemon, step uint64) {
	t.Helper()
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), "commit", map[string]any{"step": step}, nil); err != nil {
		t.Fatal(err)
	}
}
