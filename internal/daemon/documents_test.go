package daemon

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/loader/fault"
)

// tells waits until the response of /readyz contains each of the parts.
func tells(t *testing.T, d *Daemon, parts ...string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		said := get(t, d.http.url()+"/readyz")
		all := true
		for _, part := range parts {
			all = all && strings.Contains(said, part)
		}
		if all {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("readyz returned %q, want %q", said, parts)
		}
	}
}

// /readyz reports changes of the document stream under a running daemon. A different stream of the same name ends the
// run, and no daemon can continue it afterwards.
func TestReadyz_ReportsDocumentStreamChanges(t *testing.T) {
	c := settings(t)
	d := start(t, c)
	publish(t, d, 40)
	batches, result := following(t, d)
	for range 3 {
		<-batches
	}
	js := d.Store().JetStream()
	docs, err := js.Stream(t.Context(), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	changed := docs.CachedInfo().Config
	changed.Discard = jetstream.DiscardOld
	if _, err := js.UpdateStream(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	tells(t, d, "stream DOCS", "discard is")
	if _, err := js.UpdateStream(t.Context(), docs.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	tells(t, d, "ready")
	if err := docs.Purge(t.Context(), jetstream.WithPurgeSequence(9)); err != nil {
		t.Fatal(err)
	}
	tells(t, d, "documents before 9 are gone from document stream DOCS", "resume from step 2")
	if err := js.DeleteStream(t.Context(), "DOCS"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, d, 40) // of the same lengths
	var cause *fault.Error
	if err := d.Wait(); !errors.As(err, &cause) || cause.Reason != fault.StreamMismatch {
		t.Errorf("Wait = %v", err)
	}
	tells(t, d, "STREAM_MISMATCH", "DOCS")
	go func() {
		for range batches {
		}
	}()
	stopped := stop(d, 20*time.Second)
	if err := <-result; flightclient.Reason(err) != string(fault.StreamMismatch) || stopped != nil {
		t.Errorf("the reader got %v, Stop = %v", err, stopped)
	}
	close(batches)
	if _, err := Start(t.Context(), c, slog.New(slog.DiscardHandler)); !errors.As(err, &cause) ||
		cause.Reason != fault.StreamMismatch {
		t.Errorf("Start over another stream = %v", err)
	}
}

// A run that started over one document stream does not continue over another one, even if the configuration names it.
func TestStart_RefusesOtherDocumentStream(t *testing.T) {
	c := settings(t)
	d := start(t, c)
	publish(t, d, 4)
	batches, _ := following(t, d)
	<-batches
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	other := func(c config.Config) config.Config {
		c.Stream.Name, c.Stream.Subject = "NEWS", "news"
		return c
	}
	var cause *fault.Error
	if _, err := Start(t.Context(), other(c), slog.New(slog.DiscardHandler)); !errors.As(err, &cause) ||
		cause.Reason != fault.StreamMismatch || !strings.Contains(err.Error(), "NEWS") {
		t.Errorf("Start = %v", err)
	}
	if err := stop(start(t, c), 20*time.Second); err != nil {
		t.Error(err)
	}
}
