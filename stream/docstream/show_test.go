package docstream_test

import (
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/loader/plan"
	"loaderd/stream"
)

// Show returns a document with its tokens and where it came from, and an unused document with its problem.
func TestShow_ReturnsDocumentAndOrigin(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openLog(t, s)
	natstest.Publish(t, s,
		stream.Message{Data: []byte("text"), Path: "a.txt"},
		stream.Message{Data: []byte(`{"id":"7","text":"json","meta":{"path":"b.json"}}`), ContentType: stream.TypeJSON},
		stream.Message{Data: []byte(`{"text":`), ContentType: stream.TypeJSON},
		stream.Message{Data: nil},
		stream.Message{Data: stream.AppendTokens(nil, []int32{'i', 'd', 's'}), ContentType: stream.TypeTokens,
			Tokenizer: bytesTokenizing.Fingerprint},
		stream.Message{Data: []byte("panic please")})
	for sequence, want := range map[uint64]struct {
		text, path, problem string
		skip                plan.Skip
	}{
		1: {text: "text", path: "a.txt"},
		2: {text: "json", path: "b.json"},
		3: {problem: "INVALID_JSON: ", skip: plan.SkipUndecodable},
		4: {skip: plan.SkipEmpty},
		5: {text: "ids"},
		6: {problem: "ENCODER_PANIC: ", skip: plan.SkipUndecodable},
	} {
		got, err := l.ViewDocument(natstest.Context(t), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if got.Info.Sequence != sequence || got.Info.Path != want.path || got.Skip != want.skip ||
			!strings.HasPrefix(got.Problem, want.problem) || (got.Problem == "") != (want.problem == "") {
			t.Errorf("document %d is shown as %+v", sequence, got)
		}
		if want.skip == "" && docText(t, got.Document) != want.text || want.skip != "" && got.Len() > 0 {
			t.Errorf("document %d has tokens %v", sequence, got.NarrowTokens)
		}
	}
	if n := len(deadLetters(t, s)); n > 0 {
		t.Errorf("looking at documents has made %d dead letters", n)
	}
	st, err := s.EnsureDocuments(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.DeleteMsg(natstest.Context(t), 2); err != nil {
		t.Fatal(err)
	}
	_, err = l.ViewDocument(natstest.Context(t), 2)
	lostRange(t, err, 2, 2)
}
