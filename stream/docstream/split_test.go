package docstream_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline/similarity"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// A document that is too long becomes several of the same message, with its id and its weight, also among other
// documents. They are the same when read again.
func TestSplit_DocumentsOfMessageKeepIDAndWeight(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	tokenizing := bytesTokenizing
	tokenizing.Documents = runconfig.Documents{MultiplePerMessage: true,
		MaxTokens: runconfig.MaxTokens{At: 3, Do: runconfig.MaxSplit}}
	tokenizing.Hints = &similarity.Config{Retriever: "repo"}
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	half := float32(0.5)
	natstest.Publish(t, s,
		stream.Message{Data: []byte("abc"), ID: "short"},
		stream.Message{ContentType: stream.TypeJSON, Path: "a/b", ID: "long", Weight: &half,
			Data: []byte(`{"parts":[{"text":"ask","loss":false},{"text":"says"}]}`)},
		batchOf(t, fieldsOf(idsField, idField, weightField),
			`[{"ids":[1]},{"ids":[1,2,3,4],"id":"a","weight":0.5},{"ids":[5]}]`))
	type document struct {
		Start, Length, Nth int
		Weight             float32
		Skip               plan.Skip
		Loss               plan.LossRuns
	}
	want := [][]document{nil,
		{{0, 2, 0, 0.5, plan.SkipMasked, plan.LossRuns{0, 2}}, {2, 2, 1, 0.5, "", plan.LossRuns{0, 1, 1}},
			{4, 4, 2, 0.5, "", nil}},
		{{0, 2, 0, 0, "", nil}, {2, 2, 0, 0.5, "", nil}, {4, 3, 1, 0.5, "", nil}, {7, 2, 0, 0, "", nil}}}
	src := openSource(t, l, 1)
	for i, want := range want {
		d := nextDoc(t, src)
		var got []document
		for k, x := range d.Parts {
			got = append(got, document{int(d.Docs[k].Start), x.Length, x.SplitIndex, 0, x.Skip, x.Loss})
			if w := d.Docs[k].Weight; w != nil {
				got[k].Weight = *w
			}
			if k > 0 && x.SplitIndex > 0 && x.Skip == "" && d.Parts[k-1].Skip == "" && (x.ID == 0 || x.ID != d.Parts[k-1].ID) ||
				x.Skip == "" && x.Hint == nil {
				t.Errorf("document %d of message %d: %+v behind %+v", k, i+1, x, d.Parts[k-1])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message %d: -want +got:\n%s", i+1, diff)
		}
		shown, err := l.ViewDocument(natstest.Context(t), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, shown.Document); diff != "" {
			t.Errorf("message %d, read again: -want +got:\n%s", i+1, diff)
		}
		told := float32(0) // of the message, if all are of one document
		if i == 1 {
			told = half
		}
		if info := shown.Info; (info.Weight != nil) != (told != 0) || info.Weight != nil && *info.Weight != told {
			t.Errorf("message %d: its weight is reported as %v, want %v", i+1, info.Weight, told)
		}
		content, err := l.Content(natstest.Context(t), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.Content, content); diff != "" {
			t.Errorf("message %d, its content again: -want +got:\n%s", i+1, diff)
		}
		traits, err := l.PackingHints(natstest.Context(t), uint64(i+1))
		if err != nil || len(traits) != len(d.Documents()) ||
			!slices.EqualFunc(traits, d.Documents(), func(a, b plan.Part) bool {
				return a.Length == b.Length && cmp.Equal(a.Hint, b.Hint)
			}) {
			t.Errorf("message %d: traits %+v, %v", i+1, traits, err)
		}
	}
}
