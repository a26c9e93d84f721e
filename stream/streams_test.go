package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

func openDocuments(t *testing.T, s *stream.Store) jetstream.Stream {
	t.Helper()
	docs, err := s.EnsureDocuments(natstest.Context(t))
	if err == nil {
		_, err = s.EnsureDeadLetters(natstest.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// holds checks that the document stream holds natstest.Documents from 1 to n.
func holds(t *testing.T, s *stream.Store, n int) {
	t.Helper()
	docs := openDocuments(t, s)
	for i, want := range natstest.Documents(1, n) {
		if m, err := docs.GetMsg(natstest.Context(t), uint64(i+1)); err != nil || string(m.Data) != string(want.Data) {
			t.Errorf("document %d is %v, %v", i+1, m, err)
		}
	}
}

func TestStreams_CreatedOnceAndVerified(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	for range 2 {
		docs, err := s.Store().EnsureDocuments(ctx)
		if err != nil {
			t.Fatal(err)
		}
		dead, err := s.Store().EnsureDeadLetters(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if d, x := docs.CachedInfo().Config, dead.CachedInfo().Config; d.MaxBytes != 1<<30 || x.MaxBytes != 64<<20 ||
			x.Name != "DOCS_DLQ" {
			t.Fatalf("bounds %d and %d of %s", d.MaxBytes, x.MaxBytes, x.Name)
		}
	}
	js := s.Store().JetStream()
	if ack, err := js.Publish(ctx, s.Config().DeadLetterSubject("docs.web"), []byte("x")); err != nil ||
		ack.Stream != "DOCS_DLQ" {
		t.Errorf("dead letter: %v, %v", ack, err)
	}
	if ack, err := js.Publish(ctx, "docs.web", []byte("x")); err != nil || ack.Stream != "DOCS" {
		t.Errorf("document: %v, %v", ack, err)
	}
}

func TestStreams_BoundsFollowConfiguration(t *testing.T) {
	c := natstest.Config(t)
	for _, bytes := range []int64{8 << 20, 32 << 20, 4 << 20} {
		c.MaxBytes = bytes
		store := natstest.Open(t, c)
		docs, err := store.EnsureDocuments(natstest.TimeoutContext(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if got := docs.CachedInfo().Config.MaxBytes; got != bytes {
			t.Errorf("bound %d, want %d", got, bytes)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreamSettings_NamesSettingsThatLoseData(t *testing.T) {
	good := jetstream.StreamConfig{
		Name: "DOCS", Subjects: []string{"docs.>"}, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		MaxBytes: 1 << 20, AllowDirect: true, AllowAtomicPublish: true, Duplicates: time.Minute,
	}
	cases := map[string]func(*jetstream.StreamConfig){
		"mirror": func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror, c.AllowAtomicPublish = nil, &jetstream.StreamSource{Name: "ORIGIN"}, false
		},
		"subjects":  func(c *jetstream.StreamConfig) { c.Subjects = []string{"docs.only"} },
		"retention": func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"discard":   func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"storage":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode": func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		},
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 10 },
		"allow_rollup_hdrs":    func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"allow_msg_ttl":        func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"allow_msg_counter":    func(c *jetstream.StreamConfig) { c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld },
		"allow_msg_schedules": func(c *jetstream.StreamConfig) {
			c.AllowMsgSchedules, c.Discard = true, jetstream.DiscardOld
		},
		"allow_direct": func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"allow_atomic": func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			s, ctx, c := natstest.Start(t), natstest.TimeoutContext(t, time.Minute), good
			spoil(&c)
			if _, err := s.Store().JetStream().CreateStream(ctx, c); err != nil {
				t.Fatal(err)
			}
			_, err := s.Store().EnsureDocuments(ctx)
			var bad *stream.SettingsError
			if !errors.As(err, &bad) || bad.Stream != "DOCS" {
				t.Fatalf("error %v, want a SettingsError", err)
			}
			if !slices.ContainsFunc(bad.Bad, func(x stream.Setting) bool {
				return x.Name == name
			}) || !strings.Contains(err.Error(), name+" is ") {
				t.Errorf("error %q does not name %s", err, name)
			}
		})
	}
	s := natstest.Start(t)
	if _, err := s.Store().JetStream().CreateStream(natstest.TimeoutContext(t, time.Minute), good); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().EnsureDocuments(natstest.TimeoutContext(t, time.Minute)); err != nil {
		t.Errorf("a good stream: %v", err)
	}
}

func TestStreamSettings_ListsAllInvalidSettings(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	_, err := s.Store().Own().JetStream().CreateStream(ctx, jetstream.StreamConfig{
		Name: "PLAN_run", Subjects: []string{"plan.run"}, MaxAge: time.Hour, Storage: jetstream.MemoryStorage, FirstSeq: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = planlog.Open(ctx, s.Store(), "run")
	var bad *stream.SettingsError
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want a SettingsError", err)
	}
	var names []string
	for _, b := range bad.Bad {
		names = append(names, b.Name)
	}
	want := []string{"discard", "storage", "max_age", "allow_direct", "allow_atomic", "deny_delete", "deny_purge",
		"first_seq"}
	if !slices.Equal(names, want) {
		t.Errorf("bad settings %v, want %v", names, want)
	}
}

func TestStreams_SubjectsOfAnotherStreamAreNamed(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	if _, err := s.Store().JetStream().CreateStream(ctx,
		jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"docs.web"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().EnsureDocuments(ctx); err == nil || !strings.Contains(err.Error(), "docs.>") ||
		!strings.Contains(err.Error(), "stream.subject") {
		t.Errorf("error %v, want one that names the subjects and the keys", err)
	}
}

func TestConfig_ReportsEveryInvalidField(t *testing.T) {
	if bad := stream.Default().Validate(); len(bad) > 0 {
		t.Fatalf("the default is bad: %v", bad)
	}
	c := stream.Config{Listen: "nowhere", Credentials: "x", Name: "a.b", Subject: "plan.x", MaxDocument: 64 << 20,
		Replicas: 3, Workers: -1}
	var fields []string
	for _, e := range c.Validate() {
		fields = append(fields, e.Field)
	}
	want := []string{"dir", "listen", "max_document", "replicas", "credentials", "name", "subject", "max_bytes",
		"dead_letter_bytes", "plan_bytes",
		"workers", "buffer_bytes", "reconnect_wait"}
	if !slices.Equal(fields, want) {
		t.Errorf("bad fields %v, want %v", fields, want)
	}
	remote := stream.Default()
	remote.URL, remote.TLS.Cert, remote.Credentials, remote.NKey = "nats://u:secret@a:1,http://b", "cert", "c", "n"
	bad := remote.Validate()
	if len(bad) != 3 {
		t.Errorf("bad fields %v, want url, tls and nkey", bad)
	}
	if _, err := stream.Open(context.Background(), c, quiet()); err == nil ||
		strings.Count(err.Error(), "stream.") < len(want) {
		t.Errorf("Open: error %v, want every bad field", err)
	}
}

// A bound that the servers cannot reserve is refused with advice on what to change.
func TestStreams_BoundWithoutRoomIsRefused(t *testing.T) {
	url := natstest.StartPlain(t, &server.Options{JetStream: true, JetStreamMaxStore: 1 << 20,
		JetStreamMaxMemory: 1 << 20})
	c := natstest.Config(t)
	c.URL, c.Dir, c.Listen = "nats://"+url, "", ""
	store := natstest.Open(t, c)
	defer store.Close()
	_, err := store.EnsureDocuments(natstest.Context(t))
	if err == nil || !strings.Contains(err.Error(), "lower stream.max_bytes") {
		t.Errorf("error %v, want one that states what to lower", err)
	}
}

// A stream whose bound the disk lowers is logged at every start, also for an existing stream.
func TestStreams_LoweredBoundIsLoggedAtEveryStart(t *testing.T) {
	c := natstest.Config(t)
	c.MaxBytes = 64 << 20
	for i, tc := range []struct{ free, want int64 }{{16 << 20, 8 << 20}, {8 << 20, 8 << 20}, {40 << 20, 20 << 20},
		{1 << 40, 64 << 20}} {
		var log bytes.Buffer
		store, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		store.SetDiskFree(func() (int64, error) { return tc.free, nil })
		for range 2 {
			docs, err := store.EnsureDocuments(natstest.TimeoutContext(t, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if got := docs.CachedInfo().Config.MaxBytes; got != tc.want {
				t.Errorf("start %d: bound %d, want %d", i, got, tc.want)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		want := 1
		if tc.want == c.MaxBytes {
			want = 0
		}
		if n := strings.Count(log.String(), "event=stream.bound_lowered"); n != want {
			t.Errorf("start %d: logged %d times, want %d:\n%s", i, n, want, &log)
		}
		for _, part := range []string{"level=WARN", "stream=DOCS", "setting=stream.max_bytes", "configured_bytes=67108864",
			fmt.Sprintf("bytes=%d", tc.want), fmt.Sprintf("free_bytes=%d", tc.free), "do="} {
			if want == 1 && !strings.Contains(log.String(), part) {
				t.Errorf("start %d: no %s in %s", i, part, &log)
			}
		}
	}
}
