package arrowout_test

import (
	"testing"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// newSeveral returns a run whose message 2 holds three documents of 4, 6 and 5 tokens, the middle one with a weight.
// Its message 1 is one document.
func newSeveral() *fakeRun {
	f := newFake(2, 2, 16)
	f.info.Config.Documents = runconfig.Documents{MultiplePerMessage: true,
		Meta: map[string]string{"lang": runconfig.MetaString,
			"year": runconfig.MetaInt64}}
	f.steps[0].Rows = [][]packonline.Piece{{{Doc: 2, Start: 10, Length: 5}, {Doc: 2, Start: 4, Length: 4}},
		{{Doc: 2, Length: 4}}}
	f.steps[0].Masked, f.steps[0].Repeats = 5, []plan.Repeat{{Row: 1, Piece: 0, Tokens: 3}}
	f.steps[1].Rows = [][]packonline.Piece{{{Doc: 1, Length: 9}, {Doc: 2, Start: 8, Length: 2}}, nil}
	for _, s := range f.steps {
		s.Cursor = plan.PositionAfter(2)
	}
	half := float32(0.5)
	f.shown = map[uint64]document.View{
		1: {Info: document.Info{Sequence: 1, ID: "alone", Weight: &half},
			Document: document.Document{Content: document.Content{Tokens: make([]int32, 9), Weight: &half}}},
		2: {Info: document.Info{Sequence: 2, ID: "message"}, IDs: []string{"", "x", "y"},
			Document: document.Document{Content: document.Content{
				Tokens: make([]int32, 15), Loss: plan.LossRuns{6, 2, 7}, Docs: []document.Doc{{}, {Start: 4, Weight: &half},
					{Start: 10}},
				Extra: &document.Extra{Meta: []any{nil, nil, "de", int64(2024), nil, int64(1)}}}}},
	}
	f.lookup = []uint64{2}
	return f
}

// The ledger and find describe pieces of documents in messages with several: index, id, weight, values and which
// tokens have a loss.
func TestLedger_DescribesDocumentsWithinMessages(t *testing.T) {
	f := newSeveral()
	c := dial(t, serve(t, f))
	const (
		last   = `{"source":"docs","sequence":2,"start":10,"length":5,"loss_tokens":5,"index":2,"start_within":0,"id":"y","meta":{"year":1}}`
		middle = `{"source":"docs","sequence":2,"start":4,"length":4,"loss_tokens":2,"index":1,"start_within":0,"id":"x","weight":0.5,"meta":{"lang":"de","year":2024}}`
		rest   = `{"source":"docs","sequence":2,"start":8,"length":2,"loss_tokens":2,"index":1,"start_within":4,"id":"x","weight":0.5,"meta":{"lang":"de","year":2024}}`
		first  = `{"source":"docs","sequence":2,"start":0,"length":4,"repeats":3,"loss_tokens":1,"index":0,"start_within":0}`
		alone  = `{"source":"docs","sequence":1,"start":0,"length":9,"loss_tokens":9}`
	)
	document := func(sequence, id, more string) string {
		return `{"sequence":` + sequence + `,"subject":"","id":"` + id + `","content_type":"",` + more +
			`"bytes":0,"time":"0001-01-01T00:00:00Z"}`
	}
	foundIn := func(step, row, pieces string) string {
		return `{"run":"fake","step":` + step + `,"bucket":16,"row":` + row + `,"pieces":[` + pieces + `]}`
	}
	for _, tc := range []struct{ name, body, want string }{
		{"find", `{"id":"x"}`, foundIn("0", "0", middle) + "\n" + foundIn("1", "0", rest)},
		{"find", `{"id":"message"}`, foundIn("0", "0", last+","+middle) + "\n" + foundIn("0", "1", first) + "\n" +
			foundIn("1", "0", rest)},
		{"find", `{"sequence":2}`, foundIn("0", "0", last+","+middle) + "\n" + foundIn("0", "1", first) + "\n" + foundIn("1",
			"0", rest)},
		{"find", `{"sequence":1}`, foundIn("1", "0", alone)},
		{"ledger", `{"step":1}`, `{"run":"fake","step":1,"bucket":16,"cursor":2,"total":2,"first":0,"rows":` +
			`[[{"source":"docs","sequence":1,"start":0,"length":9},{"source":"docs","sequence":2,"start":8,"length":2}],[]]}`},
		{"ledger", `{"step":0,"documents":true}`,
			`{"run":"fake","step":0,"bucket":16,"cursor":2,"masked_tokens":5,"total":2,"first":0,"rows":` +
				`[[` + last + `,` + middle + `],[` + first + `]],"documents":[` + document("2", "message", "") + `]}`},
		{"ledger", `{"step":1,"documents":true}`,
			`{"run":"fake","step":1,"bucket":16,"cursor":2,"total":2,"first":0,"rows":` +
				`[[` + alone + `,` + rest + `],[]],"documents":[` + document("1", "alone", `"weight":0.5,`) + `,` + document("2",
				"message", "") + `]}`},
	} {
		if got, err := act(c, tc.name, tc.body); err != nil || got != tc.want {
			t.Errorf("%s %s:\n got %s, %v\nwant %s", tc.name, tc.body, got, err, tc.want)
		}
	}
}
