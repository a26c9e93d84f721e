package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/loader/fault"
	"loaderd/stream"
)

// settings returns the configuration of a small run over pretokenized documents, on free ports.
func settings(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: "f", VocabSize: 100,
		End: config.None, Pad: "0"}
	c.Stream.Dir, c.Stream.Listen = t.TempDir(), "127.0.0.1:0"
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 1<<30, 64<<20, 256<<20
	c.Flight.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // most of these tests do not concern authentication
	c.Plan.Packing.Method, c.Plan.Packing.Buckets = "concat", []int{1024}
	c.Plan.Shuffle.Window, c.Plan.Steps.Rows = 0, 4
	return c
}

func start(t *testing.T, c config.Config) *Daemon {
	t.Helper()
	d, err := Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func stop(d *Daemon, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return d.Stop(ctx)
}

// publish publishes documents of one row each.
func publish(t *testing.T, d *Daemon, n int) {
	t.Helper()
	publishRows(t, d, n, 1024)
}

func publishRows(t *testing.T, d *Daemon, n, tokens int) {
	t.Helper()
	var data []byte
	for range tokens {
		data = binary.LittleEndian.AppendUint32(data, 7)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		m := nats.NewMsg("docs.test")
		m.Header.Set("Content-Type", "application/vnd.loaderd.tokens")
		m.Header.Set("Loaderd-Tokenizer", "f")
		m.Data = data
		if _, err := d.Store().JetStream().PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

// following starts a reader on a real socket. It sends batches one at a time, and its result when it ends.
func following(t *testing.T, d *Daemon) (batches chan flightclient.Batch, result chan error) {
	t.Helper()
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	batches, result = make(chan flightclient.Batch), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		result <- client.Read(ctx, api.Ticket{}, func(b flightclient.Batch) error {
			select {
			case batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(result)
	}()
	t.Cleanup(func() {
		cancel()
		for range result {
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return batches, result
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// A stopped daemon releases its resources: the next daemon opens the same folder and ports and continues.
func TestDaemon_RestartsInSameFolderAndPorts(t *testing.T) {
	c := settings(t)
	for i := range 3 {
		d := start(t, c)
		publish(t, d, 4)
		batches, result := following(t, d)
		for range i + 1 {
			<-batches
		}
		if s := get(t, d.http.url()+"/healthz"); s != "ok" {
			t.Errorf("healthz returned %q", s)
		}
		if s := get(t, d.http.url()+"/readyz"); s != "ready" {
			t.Errorf("readyz returned %q", s)
		}
		c.Flight.Listen, c.HTTP.Listen = d.flight.Addr().String(), d.http.listener.Addr().String()
		if err := stop(d, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := <-result; flightclient.Reason(err) != "SHUTTING_DOWN" {
			t.Errorf("the reader got %v", err)
		}
		if err := d.Wait(); err != nil {
			t.Errorf("Wait = %v", err)
		}
		answer := httptest.NewRecorder()
		d.http.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
		if s := answer.Body.String(); answer.Code != http.StatusServiceUnavailable || strings.Contains(s, "nil") {
			t.Errorf("readyz of a stopped daemon returned %d %q", answer.Code, s)
		}
	}
}

// The cause of a run's failure is sent to waiting readers and returned by Wait, even if the daemon is stopped
// immediately.
func TestRunFailure_ReachesReadersAndWait(t *testing.T) {
	c := settings(t)
	d := start(t, c)
	publish(t, d, 4)
	batches, result := following(t, d)
	<-batches
	if _, err := d.Store().Own().JetStream().Publish(t.Context(), "plan."+c.Run,
		[]byte("of another planner")); err != nil {
		t.Fatal(err)
	}
	publish(t, d, 4)
	err := d.Wait()
	stopped := stop(d, 20*time.Second)
	// The record is checked when the append after it is rejected.
	if err == nil || !strings.Contains(err.Error(), "loaderd run repair") {
		t.Errorf("Wait = %v", err)
	}
	if err := <-result; flightclient.Reason(err) != string(fault.PlanForeign) {
		t.Errorf("the reader got %v", err)
	}
	if stopped != nil {
		t.Errorf("Stop = %v", stopped)
	}
}

// A reader that does not receive does not use up the time that the run needs to store its last checkpoint.
func TestStop_IdleReaderDoesNotPreventLastCheckpoint(t *testing.T) {
	c := settings(t)
	c.Plan.Packing.Buckets, c.Plan.Steps.Rows = []int{rowOfLargest}, 8 // a few steps fill the socket's buffers
	c.Serve.CacheBytes = 256 << 20
	d := start(t, c)
	publishRows(t, d, 8*12, rowOfLargest)
	batches, _ := following(t, d)
	<-batches
	stuck := 0
	for last := uint64(0); stuck < 100; stuck++ {
		<-time.After(5 * time.Millisecond)
		if s := d.Run().Stats(); s.Planned < 12 || len(s.Readers) == 0 || s.Readers[0].Step != last {
			stuck = 0
			if len(s.Readers) > 0 {
				last = s.Readers[0].Step
			}
		}
	}
	if err := stop(d, time.Hour); err != nil { // readers would use half of it
		t.Errorf("Stop = %v: a reader that does not read is no failure", err)
	}
	if s := d.Run().Stats(); s.Checkpoint != s.Planned {
		t.Errorf("the last checkpoint is of step %d, %d are planned", s.Checkpoint, s.Planned)
	}
}

const rowOfLargest = 1 << 18

// A failed start releases its resources and leaves no stream behind.
func TestStart_FailureReleasesResources(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := settings(t)
	c.Flight.Listen, c.HTTP.Listen = taken.Addr().String(), free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "flight.listen") {
		t.Fatalf("Start = %v", err)
	}
	store, err := stream.OpenExclusive(t.Context(), c.Stream, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name := range store.JetStream().StreamNames(t.Context()).Name() {
		t.Errorf("stream %s is left", name)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	c.Flight.Listen = "127.0.0.1:0"
	if err := stop(start(t, c), 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

// A daemon that cannot continue a run changes no stream: neither its settings, which the configuration would change,
// nor its records.
func TestStart_RefusedPlanChangesNoStream(t *testing.T) {
	c := settings(t)
	d := start(t, c)
	publish(t, d, 8)
	batches, _ := following(t, d)
	<-batches
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	before := streams(t, c.Stream)
	other := c
	other.Plan.Seed++
	other.Stream.MaxBytes, other.Stream.DeadLetterBytes, other.Stream.PlanBytes = 2<<30, 128<<20, 512<<20
	_, err := Start(t.Context(), other, slog.New(slog.DiscardHandler))
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Reason != fault.PlanMismatch {
		t.Fatalf("Start = %v, want PLAN_MISMATCH", err)
	}
	if after := streams(t, c.Stream); !reflect.DeepEqual(before, after) {
		t.Errorf("the refused start changed streams:\n%+v\n%+v", before, after)
	}
}

// streams returns the settings and the last sequence of every stream in a data folder.
func streams(t *testing.T, c stream.Config) map[string]string {
	t.Helper()
	store, err := stream.OpenExclusive(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // it is read only
	all := map[string]string{}
	for _, js := range []jetstream.JetStream{store.JetStream(), store.Own().JetStream()} {
		list := js.ListStreams(t.Context())
		for s := range list.Info() {
			all[s.Config.Name] = fmt.Sprintf("%+v at %d", s.Config, s.State.LastSeq)
		}
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
