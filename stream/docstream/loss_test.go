package docstream_test

import (
	"slices"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/stream"
)

// The loss that a document specifies is delivered with its tokens, and is the same when the document is read again. A
// document without any loss is skipped.
func TestLoss_DeliveredWithTokens(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openLog(t, s)
	parts := func(text string) stream.Message {
		return stream.Message{ContentType: stream.TypeJSON, Data: []byte(text)}
	}
	ids := func(loss []int32, ids ...int32) stream.Message {
		return stream.Message{ContentType: stream.TypeTokens, Tokenizer: bytesTokenizing.Fingerprint, Loss: loss,
			Data: stream.AppendTokens(nil, ids)}
	}
	half := float32(0.5)
	tests := []struct {
		message stream.Message
		text    string
		loss    plan.LossRuns
		weight  float32
		skip    plan.Skip
	}{
		{message: parts(`{"parts":[{"text":"ask","loss":false},{"text":"say","loss":true}]}`), text: "asksay",
			loss: plan.LossRuns{0, 3, 4}},
		{message: parts(`{"parts":[{"text":"say"},{"text":"ask","loss":false}]}`), text: "sayask", loss: plan.LossRuns{3, 4}},
		{message: parts(`{"parts":[{"text":"a"},{"text":""},{"text":"b","loss":true}],"weight":0.5}`), text: "ab",
			weight: 0.5},
		{
			message: parts(
				`{"parts":[{"text":"a"},{"text":"b","loss":false},{"text":"c","loss":false},{"text":"d"},{"text":"","loss":false}]}`), text: "abcd",
			loss: plan.LossRuns{1, 2, 1, 1}}, // the end has the loss of the last part, however short
		{message: parts(`{"parts":[{"text":"ask","loss":false}]}`), skip: plan.SkipMasked},
		{message: parts(`{"parts":[]}`), skip: plan.SkipEmpty},
		{message: parts(`{"parts":[{"text":""}]}`), skip: plan.SkipEmpty},
		{message: parts(`{"text":"a","weight":null}`), text: "a"},
		{message: stream.Message{Data: []byte("text"), Weight: &half}, text: "text", weight: 0.5},
		{message: ids([]int32{1, 2}, 'a', 'b', 'c'), text: "abc", loss: plan.LossRuns{1, 3}},
		{message: ids([]int32{0, 2, 1}, 'a', 'b', 'c'), text: "abc", loss: plan.LossRuns{0, 2, 2}},
		{message: ids([]int32{0, 2, 1}, 'a', 'b', testEnd), text: "ab", loss: plan.LossRuns{0, 2, 1}},
		{message: ids([]int32{3}, 'a', 'b', 'c'), text: "abc"},
		{message: ids([]int32{0, 3}, 'a', 'b', 'c'), skip: plan.SkipMasked},
		{message: parts(`{"parts":[{"text":"panic"}]}`), skip: plan.SkipUndecodable},
	}
	var all []stream.Message
	for _, tt := range tests {
		all = append(all, tt.message)
	}
	natstest.Publish(t, s, all...)
	src := openSource(t, l, 1)
	for i, tt := range tests {
		sequence := uint64(i + 1)
		docs := []document.Document{nextDoc(t, src)}
		if shown, err := l.ViewDocument(natstest.Context(t), sequence); err == nil {
			docs = append(docs, shown.Document)
		}
		if tt.skip == "" {
			content, err := l.Content(natstest.Context(t), sequence)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, document.Document{Sequence: sequence, Content: content})
		}
		if len(docs) < 2 {
			t.Errorf("document %d cannot be read again", sequence)
		}
		for _, d := range docs {
			weight := float32(0)
			if d.Weight != nil {
				weight = *d.Weight
			}
			if d.Skip != tt.skip || tt.skip == "" && docText(t, d) != tt.text || !slices.Equal(d.Loss, tt.loss) ||
				(d.Loss == nil) != (tt.loss == nil) || weight != tt.weight {
				t.Errorf("document %d is %+v, want %+v", sequence, d, tt)
			}
		}
	}
}
