package pulling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/internal/objecttest"
	"loaderd/internal/pulling"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/pullrecord"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }

// wait bounds the waits of tests on a busy machine.
const wait = 2 * time.Minute

// corpusOf stores objects of JSON lines and returns their texts, in order.
func corpusOf(t *testing.T, web *objecttest.Hub, objects, lines, bytes int) (texts []string) {
	t.Helper()
	for i := range objects {
		data := objecttest.Lines(fmt.Sprintf("o%02d", i), lines+i, bytes)
		web.Put("o/n", fmt.Sprintf("data/%02d.jsonl", i), data)
		for line := range strings.Lines(string(data)) {
			var d struct{ Text string }
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, d.Text)
		}
	}
	return texts
}

const pattern = "hf://datasets/o/n/data/*.jsonl"

func hub(t *testing.T) *objecttest.Hub {
	h := objecttest.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	return h
}

// running is a puller that runs until stop.
type running struct {
	*pulling.Puller
	stop func()
}

func start(t *testing.T, docs *stream.Store, o pulling.Options) running {
	t.Helper()
	o.Source, o.Log = "web", slog.New(slog.DiscardHandler)
	if o.From == nil {
		o.From = []string{pattern}
	}
	p, err := pulling.New(t.Context(), docs, lease.NewLeaderInfo("test", 1), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Serve(ctx) })
	stop := func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return running{p, stop}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// reader reads a stream in order and purges what it has read, as a run does.
type reader struct {
	mu    sync.Mutex
	texts []string
	next  uint64
	bytes uint64 // the maximum that the stream held
}

func (r *reader) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.texts)
}

// reads reads a stream until the test ends.
func reads(t *testing.T, docs *stream.Store) *reader {
	r := &reader{}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { r.read(ctx, t, docs) })
	t.Cleanup(func() { stop(); done.Wait() })
	return r
}

// read reads until ctx ends.
func (r *reader) read(ctx context.Context, t *testing.T, docs *stream.Store) {
	st, err := docs.EnsureDocuments(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	for r.next = 1; ctx.Err() == nil; {
		m, err := st.GetMsg(ctx, r.next)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			<-time.After(2 * time.Millisecond)
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) { // of the client library, on a loaded machine
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		r.mu.Lock()
		r.texts = append(r.texts, string(m.Data))
		r.next++
		r.mu.Unlock()
		if r.next%50 == 0 {
			info, err := st.Info(ctx)
			if err == nil {
				r.bytes = max(r.bytes, info.State.Bytes)
				err = st.Purge(ctx, jetstream.WithPurgeSequence(r.next))
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	}
}

// All documents are stored once and in order in a stream that holds only a part of them, with two pullers at a
// time that are stopped at any moment, and an object store whose connections are cut. The stream is sealed
// after the last document.
func TestPuller_StoresDocumentsOnceInOrder(t *testing.T) {
	h := hub(t)
	want := corpusOf(t, h, 12, 150, 2000)
	h.Files.Faults(func(*http.Request) objecttest.Fault {
		return objecttest.Fault{Cut: rand.IntN(2) == 0, After: rand.Int64N(200_000)}
	})
	s := natstest.Start(t, func(c *stream.Config) { c.MaxBytes = 1 << 20 })
	docs := s.Store().Source("web", 1)
	if _, err := docs.EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := reads(t, docs)
	o := pulling.Options{BatchBytes: 64 << 10}
	complete := func(p running) bool { return p.Status().Complete }
	a, b := start(t, docs, o), start(t, docs, o)
	for n := 0; !complete(a) && !complete(b); n++ {
		before := len(r.got())
		until(t, "documents", func() bool {
			return len(r.got()) > before+rand.IntN(200) || complete(a) || complete(b) || len(r.got()) == len(want)
		})
		if n%2 == 0 {
			a.stop()
			a = start(t, docs, o)
		} else {
			b.stop()
			b = start(t, docs, o)
		}
		if len(r.got()) == len(want) {
			until(t, "the end", func() bool { return complete(a) || complete(b) })
		}
	}
	until(t, "all documents", func() bool { return len(r.got()) >= len(want) })
	if got := r.got(); !slices.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%d documents, want %d; they differ from %d on", len(got), len(want), at)
	}
	if r.bytes > 1<<20 {
		t.Errorf("the stream held %d bytes", r.bytes)
	}
	st, err := docs.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last, sealed := stream.Sealed(st.CachedInfo().Config); !sealed || last != uint64(len(want)) {
		t.Errorf("sealed %v behind %d, want behind %d", sealed, last, len(want))
	}
}

// A puller that takes over within a large object continues at the recorded position.
func TestPuller_ResumesWithinObject(t *testing.T) {
	h := hub(t)
	h.Put("o/n", "data/00.jsonl", objecttest.Lines("large", 8000, 2000))
	s := natstest.Start(t, func(c *stream.Config) { c.MaxBytes = 4 << 20 })
	docs := s.Store().Source("web", 1)
	p := start(t, docs, pulling.Options{BatchBytes: 256 << 10})
	until(t, "a full stream", func() bool { return p.Status().Waits != "" && p.Status().Documents > 1000 })
	p.stop()
	before := len(h.Files.Requests())
	r := reads(t, docs)
	p = start(t, docs, pulling.Options{BatchBytes: 256 << 10})
	until(t, "the end", func() bool { return p.Status().Complete && len(r.got()) == 8000 })
	later := 0
	for _, request := range h.Files.Requests()[before:] {
		var from, to int64
		if _, err := fmt.Sscanf(request.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && from > 1<<20 {
			later++
		}
	}
	if later == 0 {
		t.Error("nobody asked for the later part of the object alone")
	}
}

// A position survives the purge of all messages, before the record was written.
func TestPuller_PositionSurvivesPurge(t *testing.T) {
	h := hub(t)
	want := corpusOf(t, h, 2, 500, 500)
	s := natstest.Start(t)
	docs := s.Store().Source("web", 1)
	p := start(t, docs, pulling.Options{})
	until(t, "the end", func() bool { return p.Status().Complete })
	p.stop()
	st, err := docs.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	pulls, err := pullrecord.Open(t.Context(), docs, lease.NewLeaderInfo("test", 1))
	if err != nil {
		t.Fatal(err)
	}
	record, err := pulls.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// as if the puller had been killed at that time
	record.Sequence, record.Object, record.Entry, record.Documents, record.BytesRead, record.Complete = 100, 0, 100,
		100, 0, false
	if err := pulls.Write(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	p = start(t, docs, pulling.Options{})
	until(t, "the end", func() bool { return p.Status().Complete })
	if info, err := st.Info(t.Context()); err != nil || info.State.LastSeq != uint64(len(want)) ||
		p.Status().Documents != int64(len(want)) {
		t.Errorf("%d documents, stream ends with %d, want %d (%v)", p.Status().Documents, info.State.LastSeq, len(want), err)
	}
}

// A puller detects that another publisher uses its stream, and stores no further documents.
func TestPuller_StopsOnOtherPublisher(t *testing.T) {
	h := hub(t)
	corpusOf(t, h, 1, 50, 500)
	s := natstest.Start(t)
	docs := s.Store().Source("web", 1)
	p := start(t, docs, pulling.Options{Follow: 50 * time.Millisecond})
	until(t, "all documents", func() bool { return p.Status().Documents == 50 })
	if _, err := docs.JetStream().PublishMsg(t.Context(),
		&nats.Msg{Subject: "docs.web", Data: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	h.Put("o/n", "data/01.jsonl", objecttest.Lines("new", 10, 100))
	until(t, "the trouble", func() bool { return strings.Contains(p.Status().Trouble, "another client publishes") })
	st, err := docs.EnsureDocuments(t.Context())
	if err != nil || st.CachedInfo().State.LastSeq != 51 {
		t.Errorf("the stream ends with %d, want 51 (%v)", st.CachedInfo().State.LastSeq, err)
	}
}

// A source that follows stores new objects after existing ones, regardless of their names. Problems are reported in
// the status and cleared.
func TestPuller_FollowsNewObjectsAndReportsProblems(t *testing.T) {
	h := hub(t)
	h.Put("o/n", "data/05.jsonl", objecttest.Lines("five", 3, 100))
	h.Files.Faults(func(*http.Request) objecttest.Fault { return objecttest.Fault{Status: http.StatusForbidden} })
	s := natstest.Start(t)
	docs := s.Store().Source("web", 1)
	p := start(t, docs, pulling.Options{Follow: 20 * time.Millisecond})
	until(t, "the trouble", func() bool { return strings.Contains(p.Status().Trouble, "HF_TOKEN") })
	h.Files.Faults(nil)
	until(t, "the first documents", func() bool { return p.Status().Documents == 3 && p.Status().Trouble == "" })
	h.Put("o/n", "data/01.jsonl", objecttest.Lines("one", 2, 100))
	h.Put("o/n", "data/09.jsonl", objecttest.Lines("nine", 2, 100))
	until(t, "all documents", func() bool { return p.Status().Documents == 7 })
	st, err := docs.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for seq := uint64(1); seq <= 7; seq++ {
		m, err := st.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(string(m.Data))[0])
	}
	if want := "five five five one one nine nine"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, sealed := stream.Sealed(st.CachedInfo().Config); sealed {
		t.Error("a source that follows is sealed")
	}
}

// An invalid line stops the source at that line, unless invalid lines are left out.
func TestPuller_StopsAtInvalidLine(t *testing.T) {
	h := hub(t)
	h.Put("o/n", "data/00.jsonl", []byte("{\"text\": \"a\"}\nno json\n{\"text\": \"\"}\n{\"text\": \"b\"}\n"))
	s := natstest.Start(t)
	docs := s.Store().Source("web", 1)
	p := start(t, docs, pulling.Options{})
	until(t, "the trouble", func() bool { return strings.Contains(p.Status().Trouble, "00.jsonl:2") })
	if n := p.Status().Documents; n != 1 {
		t.Errorf("%d documents before the bad line, want 1", n)
	}
	p.stop()
	p = start(t, docs, pulling.Options{ReadSettings: pulling.ReadSettings{SkipInvalid: true}})
	until(t, "the end", func() bool { return p.Status().Complete })
	if s := p.Status(); s.Documents != 2 || s.LeftOut != 2 || s.Read != 1 {
		t.Errorf("%+v", s)
	}
}

// A document whose headers exceed the server's limit, because its loss changes often, stops the source there, unless
// such documents are left out.
func TestPuller_StopsAtOversizedHeaders(t *testing.T) {
	h := hub(t)
	ids, loss := slices.Repeat([]int{5}, 40_000), slices.Repeat([]bool{true, false}, 20_000)
	line, err := json.Marshal(map[string]any{"ids": ids, "loss": loss})
	if err != nil {
		t.Fatal(err)
	}
	h.Put("o/n", "data/00.jsonl", []byte("{\"ids\": [1]}\n"+string(line)+"\n{\"ids\": [2]}\n"))
	docs := natstest.Start(t).Store().Source("web", 1)
	p := start(t, docs, pulling.Options{Fingerprint: "sha256:x", ReadSettings: pulling.ReadSettings{Tokens: true}})
	until(t, "the trouble", func() bool { return strings.Contains(p.Status().Trouble, "bytes of headers") })
	if s := p.Status(); s.Documents != 1 || !strings.Contains(s.Trouble, "data/00.jsonl") {
		t.Errorf("%+v", s)
	}
	p.stop()
	p = start(t, docs, pulling.Options{Fingerprint: "sha256:x", ReadSettings: pulling.ReadSettings{Tokens: true,
		SkipTooLarge: true}})
	until(t, "the end", func() bool { return p.Status().Complete })
	if s := p.Status(); s.Documents != 2 || s.LeftOut != 1 {
		t.Errorf("%+v", s)
	}
}

// A puller that lost its lease after an append, and before it wrote the record, cannot change the record of the later
// term: its write is refused. A stream that was created again is a different one, whatever the term.
func TestPullRecord_WriteRefusedAfterLostLease(t *testing.T) {
	s := natstest.Start(t)
	docs := s.Store().Source("web", 1)
	st, err := docs.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := stream.Created(st.CachedInfo())
	open := func(name string) *pullrecord.Store {
		p, err := pullrecord.Open(t.Context(), docs, lease.NewLeaderInfo(name, 1))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := open("first"), open("second")
	old, err := first.BeginTerm(t.Context(), made, 0)
	if err != nil {
		t.Fatal(err)
	}
	old.From, old.Objects, old.Sequence, old.Documents = []string{pattern}, 2, 10, 10
	if err := first.Write(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	late := old
	late.Sequence, late.Documents = 20, 20 // appended, not recorded yet
	newer, err := second.BeginTerm(t.Context(), made, 20)
	if err != nil || newer.Term != old.Term+1 || newer.Sequence != 10 {
		t.Fatalf("the second takes %+v, %v", newer, err)
	}
	newer.Sequence, newer.Documents, newer.Object = 30, 30, 1
	if err := second.Write(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	recorded := func(when string) {
		t.Helper()
		if r, err := second.Read(t.Context()); err != nil || !reflect.DeepEqual(r, newer) {
			t.Errorf("%s the record is %+v, want %+v (%v)", when, r, newer, err)
		}
	}
	if err := first.Write(t.Context(), late); !errors.Is(err, fault.ErrLeadershipLost) ||
		!strings.Contains(err.Error(), newer.Puller) {
		t.Errorf("the first one's writing: %v", err)
	}
	recorded("behind the first one's writing")
	other := newer
	other.Created = made.Add(time.Second)
	if err := second.Write(t.Context(), other); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("the record of another stream of the same name: %v", err)
	}
	recorded("behind one of another stream")
}
