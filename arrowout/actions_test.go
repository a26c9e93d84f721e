package arrowout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

func TestActions_ResponsesOfEveryAction(t *testing.T) {
	f := newFake(2, 2, 16)
	f.steps[1].Rows = [][]packonline.Piece{{{Doc: 1 << 40, Start: 3, Length: 9}, {Doc: 2, Length: 1}}, nil}
	f.steps[1].Cursor = plan.PositionAfter(99)
	f.steps[0].Rows = nil
	f.info.Length = &state.Length{Steps: 900, Error: 12, OpenSources: []string{"web"}, MeasuredFraction: .5}
	f.consumed = func(at state.RankID, c state.Consumption) state.ConsumptionResponse {
		if at == (state.RankID{Job: "eval", Rank: 1, World: 2, Peer: 3}) &&
			c == (state.Consumption{Session: strings.Repeat("5e", 16), Delivered: 35, Waiting: true,
				SinceChange: 20500 * time.Millisecond,
				Left:        true}) {
			return state.ConsumptionResponse{Known: true, Window: 64}
		}
		return state.ConsumptionResponse{Window: 8}
	}
	f.resized = func(q state.ResizeRequest) state.ResizeResult {
		if q == (state.ResizeRequest{RankID: state.RankID{Job: "eval", Rank: 1, World: 2, Peer: 3},
			Session: strings.Repeat("5e", 16), Request: "r1", Step: 9, Skips: "[[1,3],[3,4]]"}) {
			return state.ResizeResult{Missing: []int{0}, MissingCount: 1, Refused: "no"}
		}
		return state.ResizeResult{Agreed: q.Withdraw && q.Skips == ""}
	}
	c := dial(t, serve(t, f))
	for _, tc := range []struct{ name, body, want string }{
		{"commit", `{"run":"fake","step":5}`, `{"run":"fake","committed":5}`},
		{"commit", `{"step":0}`, `{"run":"fake","committed":5}`}, // the recorded step, not the requested one
		{"commit", `{"step":1,"job":"eval"}`, `{"run":"fake","committed":5}`},
		{"leave", `{"job":"eval"}`, `{"run":"fake","committed":5}`},
		{"checkpoint", ``, `{"run":"fake","step":7}`},
		{"seal", `{"run":"fake"}`, `{"run":"fake","sequence":7}`},
		{"flush", `{}`, `{"run":"fake","sequence":7}`},
		{"cause", `{"step":1}`, `{"run":"fake","step":1}`},
		{"cause", `{"step":2}`,
			`{"run":"fake","step":2,"reason":"POOL_FILLING","message":"not yet","do":"wait","facts":{"rows_ready":"3"}}`},
		{"consumed", `{"job":"eval","rank":1,"world":2,"peer":3,"session":"` + strings.Repeat("5e", 16) +
			`","taken":35,"waiting":true,"still":20.5,"left":true}`,
			`{"run":"fake","known":true,"window":64}`},
		{"consumed", `{"session":"` + strings.Repeat("5e", 16) + `","taken":0}`, `{"run":"fake","known":false,"window":8}`},
		{"resize", `{"job":"eval","rank":1,"world":2,"peer":3,"session":"` + strings.Repeat("5e", 16) +
			`","request_id":"r1","step":9,"skip":[[1,3],[3,4]]}`,
			`{"run":"fake","agreed":false,"missing":[0],"missing_count":1,"refused":"no"}`},
		{"resize", `{"rank":0,"world":1,"session":"` + strings.Repeat("5e", 16) + `","step":0,"skip":[],"left":true}`,
			`{"run":"fake","agreed":true}`},
		{"measure", `{"run":"fake"}`,
			`{"run":"fake","length":{"steps":900,"error":12,"exact":false,"open":["web"],"measured":0.5}}`},
		{"find", `{"sequence":2}`,
			`{"run":"fake","step":1,"bucket":16,"row":0,"pieces":[{"source":"docs","sequence":2,"start":0,"length":1,"loss_tokens":1}]}`},
		{"find", `{"id":"two"}`,
			`{"run":"fake","step":1,"bucket":16,"row":0,"pieces":[{"source":"docs","sequence":2,"start":0,"length":1,"loss_tokens":1}]}`},
		{"ledger", `{"step":1}`, `{"run":"fake","step":1,"bucket":16,"cursor":99,"total":2,"first":0,"rows":` +
			`[[{"source":"docs","sequence":1099511627776,"start":3,"length":9},{"source":"docs","sequence":2,"start":0,"length":1}],[]]}`},
	} {
		got, err := act(c, tc.name, tc.body)
		if err != nil || got != tc.want {
			t.Errorf("%s %s:\n got %s, %v\nwant %s", tc.name, tc.body, got, err, tc.want)
		}
	}
	if fmt.Sprint(f.committed, f.commits) != "[5 0 1] [trainer trainer eval]" {
		t.Errorf("committed %v by %v", f.committed, f.commits)
	}
	var several []uint64
	got, err := act(c, "ledger", `{"step":0,"steps":2}`)
	for line := range strings.SplitSeq(got, "\n") {
		var step api.LedgerPage
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Fatal(err)
		}
		several = append(several, step.Index)
	}
	if err != nil || !slices.Equal(several, []uint64{0, 1}) {
		t.Errorf("two steps of the ledger: %v, %v", several, err)
	}
	var page struct{ Documents []document.Info }
	if got, err := act(c, "ledger", `{"step":1,"documents":true}`); err != nil ||
		json.Unmarshal([]byte(got), &page) != nil ||
		len(page.Documents) != 2 || page.Documents[0].Path != "/2" || page.Documents[1].Sequence != 1<<40 {
		t.Errorf("ledger with documents: %s, %v", got, err)
	}
	var stats loader.Stats
	if got, err := act(c, "stats", ""); err != nil || json.Unmarshal([]byte(got), &stats) != nil || stats.Rows != 12 {
		t.Errorf("stats: %s, %v", got, err)
	}
	var info loader.Info
	if got, err := act(c, "info", ""); err != nil || json.Unmarshal([]byte(got), &info) != nil ||
		info.Config.Tokenizer.VocabSize != 50257 {
		t.Errorf("info: %s, %v", got, err)
	}
}

// The run receives the name in the token as the author of a seal or flush, and the plan records it.
func TestActions_SealRecordsIdentity(t *testing.T) {
	f := newFake(2, 2, 16)
	file := filepath.Join(t.TempDir(), "identities.json")
	alice := let(t, file, auth.Identity{Name: "alice", Role: auth.Operate})
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
	for _, action := range []string{"flush", "seal"} {
		stream, err := c.DoAction(withToken(alice), &flight.Action{Type: action})
		if err := received(stream, new(flight.Result), err); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"flush by alice", "seal by alice"}; !slices.Equal(f.askers, want) {
		t.Errorf("asked for %q, want %q", f.askers, want)
	}
}

func TestListActions_ListsEveryAction(t *testing.T) {
	c := dial(t, serve(t, newFake(2, 2, 16)))
	stream, err := c.ListActions(context.Background(), &flight.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		a, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := act(c, a.Type, `{"step":1}`); err != nil && !strings.Contains(err.Error(), "unknown key") &&
			!strings.Contains(err.Error(), "is missing") {
			t.Errorf("%s: %v", a.Type, err)
		}
		if _, err := act(c, a.Type, `{"run":"other"`+map[bool]string{true: `,"step":1`}[strings.Contains(a.Description,
			`"step"`)]+
			map[string]string{"text": `,"sequence":1`, "consumed": `,"session":"` + strings.Repeat("5e", 16) +
				`","taken":1`, "resize": `,"session":"` + strings.Repeat("5e", 16) + `","rank":0,"world":1`}[a.Type]+`}`); infoOf(t, err,
			codes.FailedPrecondition).Reason != "RUN_MISMATCH" {
			t.Errorf("%s: %v", a.Type, err)
		}
	}
}

func TestActions_RefuseInvalidBodies(t *testing.T) {
	f := newFake(2, 2, 16)
	c := dial(t, serve(t, f))
	for _, tc := range []struct {
		name, body string
		code       codes.Code
		reason     string
	}{
		{"nothing", `{}`, codes.Unimplemented, "UNSUPPORTED"},
		{"", ``, codes.Unimplemented, "UNSUPPORTED"},
		{"commit", ``, codes.InvalidArgument, "INVALID_TICKET"},
		{"find", ``, codes.InvalidArgument, "INVALID_TICKET"},
		{"find", `{"id":"x","sequence":1}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"find", `{"sequence":0}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"commit", `{"step":-1}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"commit", `{"step":"1"}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"commit", "\xff", codes.InvalidArgument, "INVALID_TICKET"},
		{"seal", `{"step":1}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"ledger", `{"step":2}`, codes.OutOfRange, "STEP_NOT_PLANNED"},
		{"ledger", `{"step":0,"steps":0}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"ledger", `{"step":0,"steps":257}`, codes.InvalidArgument, "INVALID_TICKET"},
		{"ledger", `{"step":0,"steps":9}`, codes.OutOfRange, "STEP_NOT_PLANNED"},
	} {
		_, err := act(c, tc.name, tc.body)
		if got := infoOf(t, err, tc.code).Reason; got != tc.reason {
			t.Errorf("%s %s: got %s, want %s", tc.name, tc.body, got, tc.reason)
		}
	}
	if len(f.committed) > 0 {
		t.Errorf("committed %v", f.committed)
	}
	f.act = func(string, uint64) (uint64, error) {
		return 0, &fault.Error{Reason: fault.StepPurged, Message: "below the low watermark"}
	}
	for _, name := range []string{"seal", "flush", "checkpoint"} {
		if _, err := act(c, name, ""); infoOf(t, err, codes.OutOfRange).Reason != "STEP_PURGED" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLedger_LongLedgerIsPaged(t *testing.T) {
	f := newFake(1, 50, 16)
	for i := range f.steps[0].Rows {
		f.steps[0].Rows[i] = make([]packonline.Piece, 1000)
		for k := range f.steps[0].Rows[i] {
			f.steps[0].Rows[i][k] = packonline.Piece{Doc: 1<<47 + uint64(i*1000+k), Start: 1 << 30, Length: 1 << 30}
		}
	}
	got, err := act(dial(t, serve(t, f)), "ledger", `{"step":0}`)
	if err != nil {
		t.Fatal(err)
	}
	rows, results := 0, strings.Split(got, "\n")
	for _, line := range results {
		var page struct {
			First, Total int
			Rows         [][]struct{ Sequence uint64 }
		}
		if err := json.Unmarshal([]byte(line), &page); err != nil {
			t.Fatal(err)
		}
		if len(line) > 2<<20 || page.First != rows || page.Total != 50 {
			t.Errorf("a result of %d bytes from row %d of %d, want row %d of 50", len(line), page.First, page.Total, rows)
		}
		for _, row := range page.Rows {
			if len(row) != 1000 || row[999].Sequence != 1<<47+uint64(rows*1000+999) {
				t.Fatalf("row %d differs", rows)
			}
			rows++
		}
	}
	if rows != 50 || len(results) < 2 {
		t.Errorf("%d rows in %d results", rows, len(results))
	}
}

func TestResize_InvalidBodies(t *testing.T) {
	c := dial(t, serve(t, newFake(2, 2, 16)))
	session := `"session":"` + strings.Repeat("5e", 16) + `"`
	for body, want := range map[string]string{
		`{"rank":0,"world":1,"step":0}`:                                      `the key "session" is missing`,
		`{"rank":2,"world":2,"step":0,` + session + `}`:                      "rank 2 of world 2: want a rank of 0 to 1",
		`{"rank":0,"world":0,"step":0,` + session + `}`:                      `"world" is "0"`,
		`{"rank":0,"world":1,"step":0,"skip":[[3,1]],` + session + `}`:       "want ascending ranges",
		`{"rank":0,"world":1,"step":0,"skip":[[1]],` + session + `}`:         "want ascending ranges",
		`{"rank":0,"world":1,"step":0,"skip":[[1,3],[2,4]],` + session + `}`: "want ascending ranges",
		`{"rank":0,"world":1,"step":0,"skip":"1-3",` + session + `}`:         "want ranges",
	} {
		if _, err := act(c, "resize", body); err == nil || !strings.Contains(err.Error(), want) ||
			infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
