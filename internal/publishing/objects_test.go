package publishing_test

import (
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/natstest"
	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
	"loaderd/internal/publishing"
)

// Objects of a hub whose connections are cut give the same documents as their files. A publishing that was
// interrupted continues, and complete inputs are not read again.
func TestPublish_ResumesInterruptedObjects(t *testing.T) {
	hub := objecttest.NewHub(t)
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_TOKEN", "")
	files := map[string]string{"a.jsonl": string(objecttest.Lines("a", 300, 900)),
		"b.jsonl": string(objecttest.Lines("b", 200, 2000)), "c.txt": "some text", "d.txt": "more text", "e.txt": "\x00\x01"}
	for name, data := range files {
		hub.Put("o/n", "data/"+name, []byte(data))
	}
	const pattern = "hf://datasets/o/n/data/**"
	s := natstest.Start(t)
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := func() (publishing.Summary, error) {
		t.Helper()
		inputs, err := corpus.Open(t.Context(), []string{pattern}, nil,
			corpus.Options{Stores: objects.New(objects.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		p, err := publishing.Open(t.Context(), s.Store(), inputs, publishing.Options{Source: "s"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Run(t.Context())
	}
	var n atomic.Int64
	hub.Files.Faults(func(*http.Request) objecttest.Fault {
		if n.Add(1) > 6 {
			return objecttest.Fault{Status: http.StatusForbidden}
		}
		return objecttest.Fault{Cut: true, After: 60_000}
	})
	sum, err := run()
	if !objects.IsKind(err, objects.Denied) || sum.Documents == 0 || sum.Documents >= 502 {
		t.Fatalf("broken off: %+v, %v", sum, err)
	}
	hub.Files.Faults(func(*http.Request) objecttest.Fault { return objecttest.Fault{Cut: true, After: 150_000} })
	rest, err := run()
	if err != nil || sum.Documents+rest.Documents != 502 || rest.Skipped["binary"] != 1 ||
		rest.InputsComplete != rest.Inputs {
		t.Fatalf("goes on: %+v behind %d, %v", rest, sum.Documents, err)
	}
	before := len(hub.Files.Requests())
	again, err := run()
	if err != nil || again.Documents != 0 || again.AlreadyStored != 502 || len(hub.Files.Requests()) != before {
		t.Errorf("again: %+v, %d requests, %v", again, len(hub.Files.Requests())-before, err)
	}
	local := natstest.Start(t)
	if _, err := local.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := publish(t, local, files, publishing.Options{Source: "s"}); err != nil {
		t.Fatal(err)
	}
	if got, want := payloads(t, s), payloads(t, local); !reflect.DeepEqual(got, want) {
		t.Errorf("%d payloads differ from %d of the same files", len(got), len(want))
	}
}

// payloads counts the messages of the document stream by their content.
func payloads(t *testing.T, s *natstest.Server) map[string]int {
	t.Helper()
	st, err := s.Store().EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all[string(m.Data)]++
	}
	return all
}
