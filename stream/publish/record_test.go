package publish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"loaderd/stream"
	"loaderd/stream/publish"
)

// unnamed returns documents without ids, which a record sets.
func unnamed(prefix string, n int) []stream.Message {
	var ms []stream.Message
	for i := range n {
		ms = append(ms, stream.Message{Path: "corpus.jsonl", Data: fmt.Appendf(nil, "%s %d", prefix, i)})
	}
	return ms
}

const corpusFile = "/data/corpus.jsonl"

// publishInput publishes a whole input through its record.
func publishInput(tb testing.TB, s *stream.Store, fingerprint string, docs []stream.Message) publish.Committed {
	tb.Helper()
	p := newPublisher(tb, s, publish.Options{BatchMessages: 50})
	defer p.Close()
	r, err := p.Resume(tb.Context(), corpusFile, fingerprint)
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range docs {
		if err := r.Publish(tb.Context(), corpusFile, d); err != nil {
			tb.Fatal(err)
		}
	}
	if err := r.Finish(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return flush(tb, p)
}

// shortWindow makes the server forget message ids immediately, so that only the record detects duplicates.
func shortWindow(tb testing.TB, s *stream.Store) {
	tb.Helper()
	st, err := s.EnsureDocuments(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	sc := st.CachedInfo().Config
	sc.Duplicates = 100_000_000 // the server's minimum: 100 ms
	if _, err := s.JetStream().UpdateStream(tb.Context(), sc); err != nil {
		tb.Fatal(err)
	}
}

func TestRecord_AddsNothingTwice(t *testing.T) {
	s := publishStore(t)
	docs := unnamed("document", 500)
	first := publishInput(t, s, "v1", docs)
	if first.Documents != 500 || first.Duplicates != 0 {
		t.Fatalf("first time: %+v, want 500 documents", first)
	}
	p := newPublisher(t, s, publish.Options{})
	r, err := p.Resume(t.Context(), corpusFile, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete() || r.Committed() != 500 {
		t.Errorf("complete=%v committed=%d, want a complete record of 500", r.Complete(), r.Committed())
	}
	if r.Stored() != 500 {
		t.Errorf("stored=%d, want 500", r.Stored())
	}
	again := publishInput(t, s, "v1", docs)
	if again.Documents != 0 || again.Duplicates != 500 {
		t.Errorf("second time: %+v, want 500 duplicates", again)
	}
	wantStored(t, s, texts(docs))
}

func TestRecord_ChangedInputAddsOnlyNewDocuments(t *testing.T) {
	s := publishStore(t)
	shortWindow(t, s)
	docs := unnamed("document", 120)
	publishInput(t, s, "v1", docs)
	want := texts(docs)

	appended := append(unnamed("document", 120), unnamed("more", 30)...)
	if done := publishInput(t, s, "v2", appended); done.Documents != 30 || done.Duplicates != 120 {
		t.Errorf("30 lines more: %+v", done)
	}
	want = append(want, texts(appended[120:])...)
	wantStored(t, s, want)

	edited := append([]stream.Message(nil), appended...)
	edited[3].Data = []byte("edited")
	if done := publishInput(t, s, "v3", edited); done.Documents != 1 || done.Duplicates != 149 {
		t.Errorf("one line edited: %+v", done)
	}
	wantStored(t, s, append(want, "edited"))
}

// A changed input is compared with all documents of its earlier content, also if its publisher is killed.
func TestRecord_ChangedInputContinuesAfterKill(t *testing.T) {
	s := publishStore(t)
	shortWindow(t, s)
	docs := unnamed("document", 120)
	publishInput(t, s, "v1", docs)
	edited := unnamed("document", 120)
	edited[5].Data, edited[50].Data = []byte("edited 5"), []byte("edited 50")

	p := newPublisher(t, s, publish.Options{})
	r, err := p.Resume(t.Context(), corpusFile, "v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range edited[:10] {
		if err := r.Publish(t.Context(), corpusFile, d); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, p)
	p.Close()
	if done := publishInput(t, s, "v2", edited); done.Documents != 1 || done.Duplicates != 119 {
		t.Errorf("after a kill: %+v, want one document more", done)
	}
	wantStored(t, s, append(texts(docs), "edited 5", "edited 50"))
}

func TestRecord_RefusesChangedInputAfterPurge(t *testing.T) {
	s := publishStore(t)
	docs := unnamed("document", 100)
	publishInput(t, s, "v1", docs)
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(51)); err != nil {
		t.Fatal(err)
	}
	if done := publishInput(t, s, "v1", docs); done.Documents != 0 {
		t.Errorf("unchanged input: %+v, want nothing published", done)
	}
	p := newPublisher(t, s, publish.Options{})
	_, err = p.Resume(t.Context(), corpusFile, "v2")
	var released *publish.ReleasedError
	if !errors.As(err, &released) || released.Documents != 100 || released.Oldest != 51 {
		t.Errorf("changed input: %v, want a ReleasedError of 100 documents and oldest sequence 51", err)
	}
}

func TestRecord_IgnoredForNewStream(t *testing.T) {
	s := publishStore(t)
	docs := unnamed("document", 10)
	publishInput(t, s, "v1", docs)
	if err := s.JetStream().DeleteStream(t.Context(), s.Config().Name); err != nil {
		t.Fatal(err)
	}
	if done := publishInput(t, s, "v1", docs); done.Documents != 10 {
		t.Errorf("into a new stream: %+v, want all 10 documents", done)
	}
}

func TestRecord_LatestPublisherTakesOver(t *testing.T) {
	s := publishStore(t)
	one, two := newPublisher(t, s, publish.Options{}), newPublisher(t, s, publish.Options{})
	r1, err := one.Resume(t.Context(), corpusFile, "v1")
	if err != nil {
		t.Fatal(err)
	}
	r2, err := two.Resume(t.Context(), corpusFile, "v1")
	if err != nil {
		t.Fatal(err)
	}
	docs := unnamed("document", 10)
	for _, d := range docs {
		if err := r2.Publish(t.Context(), corpusFile, d); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, two)
	for _, d := range docs {
		if err := r1.Publish(t.Context(), corpusFile, d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.Flush(t.Context()); !errors.Is(err, publish.ErrTakenOver) {
		t.Errorf("the earlier publisher ends with %v, want ErrTakenOver", err)
	}
	wantStored(t, s, texts(docs))
}

// A publisher that is killed at any point, any number of times, leaves every document in the stream exactly once and
// in order. This holds for all batch sizes, and although the server has forgotten the ids.
func TestRecord_ResumesFromAnyPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := publishStore(t)
		defer func() {
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
		}()
		shortWindow(t, s)
		docs := unnamed("document", rapid.IntRange(1, 400).Draw(rt, "documents"))
		for _, killAfter := range rapid.SliceOfN(rapid.IntRange(0, 400), 0, 4).Draw(rt, "kills") {
			// As after a kill, neither the batch in flight nor the record is awaited.
			o := publish.Options{BatchMessages: rapid.IntRange(1, 60).Draw(rt, "batch")}
			p, err := publish.New(t.Context(), s, "web", o)
			if err != nil {
				rt.Fatal(err)
			}
			r, err := p.Resume(t.Context(), corpusFile, "v1")
			if err != nil {
				rt.Fatal(err)
			}
			for _, d := range docs[:min(killAfter, len(docs))] {
				if err := r.Publish(t.Context(), corpusFile, d); err != nil {
					rt.Fatal(err)
				}
			}
			p.Close()
			// Another client publishes to the same stream.
			if err := s.Conn().Publish("docs.other", []byte("other")); err != nil {
				rt.Fatal(err)
			}
		}
		publishInput(t, s, "v1", docs)
		var got []string
		for _, text := range stored(t, s) {
			if text != "other" {
				got = append(got, text)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(texts(docs)) {
			rt.Fatalf("stream holds %d documents, want %d in order:\n%v", len(got), len(docs), got)
		}
	})
}

// recorded returns the content of a source's records, by input: its documents, and the last sequence that needs no
// read back.
func recorded(tb testing.TB, s *stream.Store) map[string][2]int64 {
	tb.Helper()
	kv, err := s.JetStream().KeyValue(tb.Context(), "loaderd_publish")
	if err != nil {
		tb.Fatal(err)
	}
	keys, err := kv.Keys(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string][2]int64{}
	for _, key := range keys {
		e, err := kv.Get(tb.Context(), key)
		if err != nil {
			tb.Fatal(err)
		}
		var v struct {
			Input        string
			Documents    int64
			LastSequence int64 `json:"last_sequence"`
		}
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			tb.Fatal(err)
		}
		out[v.Input] = [2]int64{v.Documents, v.LastSequence}
	}
	return out
}

// offer publishes documents of an input without finishing it.
func offer(tb testing.TB, p *publish.Publisher, input string, docs []stream.Message) {
	tb.Helper()
	r, err := p.Resume(tb.Context(), input, "v1")
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range docs {
		if err := r.Publish(tb.Context(), input, d); err != nil {
			tb.Fatal(err)
		}
	}
}

// The record of an input follows what is committed of it, whatever other inputs of the source are committed
// meanwhile. After an interruption only its last batches must be read back.
func TestRecord_FollowsInputAmongOtherInputs(t *testing.T) {
	t.Run("behind another input", func(t *testing.T) {
		s := publishStore(t)
		p := newPublisher(t, s, publish.Options{BatchMessages: 100})
		offer(t, p, "/data/one", unnamed("one", 1000))
		offer(t, p, "/data/two", unnamed("two", 100))
		flush(t, p)
		if have := recorded(t, s)["/data/two"]; have != [2]int64{100, 1100} {
			t.Errorf("documents and last sequence are %v, want 100 and 1100", have)
		}
	})
	t.Run("interrupted, with another input behind it", func(t *testing.T) {
		s := publishStore(t)
		docs := unnamed("two", 100)
		p := newPublisher(t, s, publish.Options{})
		offer(t, p, "/data/two", docs[:50])
		flush(t, p)
		p.Close()
		p = newPublisher(t, s, publish.Options{})
		offer(t, p, "/data/one", unnamed("one", 1000))
		flush(t, p)
		offer(t, p, "/data/two", docs)
		flush(t, p)
		if have := recorded(t, s)["/data/two"]; have != [2]int64{100, 1100} {
			t.Errorf("documents and last sequence are %v, want 100 and 1100", have)
		}
	})
}

// The record of an input whose next document follows those of other inputs needs no read back of these, also when the
// stream no longer holds them.
func TestRecord_FollowsStreamUntilNextDocument(t *testing.T) {
	s := publishStore(t)
	docs := unnamed("one", 3)
	expect := func(r *publish.Record, next stream.Message, want bool) {
		t.Helper()
		if followed, err := r.Expect(t.Context(), "/data/one", next); err != nil || followed != want {
			t.Fatalf("followed=%v, %v, want %v", followed, err, want)
		}
	}
	first := newPublisher(t, s, publish.Options{})
	offer(t, first, "/data/one", docs[:1])
	offer(t, first, "/data/two", unnamed("two", 100))
	flush(t, first)
	first.Close() // its record does not follow: 100 documents must be read back
	if have := recorded(t, s)["/data/one"]; have != [2]int64{1, 1} && have != [2]int64{1, 101} {
		t.Fatalf("documents and last sequence are %v", have)
	}

	p := newPublisher(t, s, publish.Options{})
	r, err := p.Resume(t.Context(), "/data/one", "v1")
	if err != nil {
		t.Fatal(err)
	}
	publishOne := func(m stream.Message) {
		t.Helper()
		if err := r.Publish(t.Context(), "/data/one", m); err != nil {
			t.Fatal(err)
		}
	}
	publishOne(docs[0])
	offer(t, p, "/data/three", unnamed("three", 100))
	flush(t, p)
	expect(r, docs[1], true)
	expect(r, docs[1], true)
	flush(t, p)
	if have := recorded(t, s)["/data/one"]; have != [2]int64{1, 201} {
		t.Errorf("documents and last sequence are %v, want 1 and 201", have)
	}
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(202)); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if done := publishRest(t, s, docs); done.Documents != 2 || done.Duplicates != 1 {
		t.Errorf("%+v, want the 2 documents that are missing", done)
	}
}

// publishRest publishes the rest of the input /data/one.
func publishRest(tb testing.TB, s *stream.Store, docs []stream.Message) publish.Committed {
	tb.Helper()
	p := newPublisher(tb, s, publish.Options{})
	defer p.Close()
	offer(tb, p, "/data/one", docs)
	return flush(tb, p)
}

// A record does not follow the stream while it may have documents that are not offered again.
func TestRecord_DoesNotFollowBeforeItsDocuments(t *testing.T) {
	s := publishStore(t)
	shortWindow(t, s)
	docs := unnamed("one", 4)
	old := newPublisher(t, s, publish.Options{})
	offer(t, old, "/data/one", docs[:2])
	flush(t, old)
	was := recorded(t, s)["/data/one"]
	old.Close()
	setRecord(t, s, "/data/one", 0, 0) // as if it was killed before it wrote the record of its commits
	p := newPublisher(t, s, publish.Options{})
	r, err := p.Resume(t.Context(), "/data/one", "v1")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range docs {
		if followed, err := r.Expect(t.Context(), "/data/one", m); err != nil || followed != (i >= 2) {
			t.Errorf("before document %d: followed=%v, %v", i, followed, err)
		}
		if err := r.Publish(t.Context(), "/data/one", m); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, p)
	if have := recorded(t, s)["/data/one"]; have != [2]int64{4, 4} || was != [2]int64{2, 2} {
		t.Errorf("documents and last sequence are %v, then %v", was, have)
	}
	wantStored(t, s, texts(docs))
}

// A document that is too large does not end the search for stored documents: those after it are not sent again.
func TestRecord_FindsDocumentsAfterTooLargeOne(t *testing.T) {
	s := publishStore(t)
	docs := unnamed("one", 3)
	docs[1].Data = make([]byte, 2*s.Conn().MaxPayload())
	publishAll := func() publish.Committed {
		t.Helper()
		p := newPublisher(t, s, publish.Options{})
		defer p.Close()
		r, err := p.Resume(t.Context(), "/data/one", "v1")
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range docs {
			err := r.Publish(t.Context(), "/data/one", m)
			if large := (*publish.TooLargeError)(nil); err != nil && (i != 1 || !errors.As(err, &large)) {
				t.Fatal(err)
			}
		}
		return flush(t, p)
	}
	publishAll()
	setRecord(t, s, "/data/one", 0, 0) // as if it was killed before it wrote the record of its commits
	if done := publishAll(); done.Documents != 0 || done.Repeated != 0 {
		t.Errorf("%+v, want the 2 documents found by the read back", done)
	}
}

// setRecord changes the stored counts of an input.
func setRecord(tb testing.TB, s *stream.Store, input string, documents, last int64) {
	tb.Helper()
	kv, err := s.JetStream().KeyValue(tb.Context(), "loaderd_publish")
	if err != nil {
		tb.Fatal(err)
	}
	keys, err := kv.Keys(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, key := range keys {
		e, err := kv.Get(tb.Context(), key)
		if err != nil {
			tb.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			tb.Fatal(err)
		}
		if v["input"] != input {
			continue
		}
		v["documents"], v["last_sequence"], v["first_sequence"], v["skipped"] = documents, last, 0, 0
		data, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := kv.Put(tb.Context(), key, data); err != nil {
			tb.Fatal(err)
		}
	}
}
