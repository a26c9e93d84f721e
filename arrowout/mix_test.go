package arrowout_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// shared is a mixed run whose sources have these target shares.
func shared(f *fakeRun, targets ...float64) *fakeRun {
	f.stats = nil
	for i, target := range targets {
		f.stats = append(f.stats, state.SourceStats{Status: mixture.Status{Name: f.info.Sources[i].Name, Target: target,
			Share: target, Epochs: 1}})
	}
	return f
}

// A change reaches the run unmodified, and the run completes its weights. The response has the resulting shares.
func TestMix_ReachesRunUnmodified(t *testing.T) {
	f := shared(newMixed(3, 2, 16, runconfig.AttentionDocument), 0.5, 0.25, 0.25) // code, web, books
	f.mixed = state.MixResult{Step: 7, Weights: map[string]float64{"code": 0.5, "web": 1.25, "books": 0.25}}
	c := dial(t, serve(t, f))
	change := func(c mixture.Change) state.MixRequest { return state.MixRequest{Change: c} }
	decided := uint64(2)
	for _, tc := range []struct {
		body string
		want state.MixRequest
	}{
		{`{"weights":{"code":1,"web":2,"books":1}}`,
			change(mixture.Change{Weights: map[string]float64{"code": 1, "web": 2, "books": 1}})},
		{`{"weights":{"web":1.25}}`, change(mixture.Change{Weights: map[string]float64{"web": 1.25}})},
		{`{"weights":{"web":1.25},"request_id":"a1"}`,
			state.MixRequest{Change: mixture.Change{Weights: map[string]float64{"web": 1.25}}, Request: "a1"}},
		{`{"weights":{"web":1.25},"decided":2}`,
			state.MixRequest{Change: mixture.Change{Weights: map[string]float64{"web": 1.25}}, Decided: &decided}},
		{`{"weights":{"web":1.25},"dry_run":true}`,
			state.MixRequest{Change: mixture.Change{Weights: map[string]float64{"web": 1.25}}, DryRun: true}},
		{`{"remove":["code"]}`, change(mixture.Change{Remove: []string{"code"}})},
		{`{"add":{"math":{"weight":1,"epochs":"forever"}}}`,
			change(mixture.Change{Add: map[string]mixture.Source{"math": {Weight: 1, Epochs: mixture.Forever,
				Block: mixture.DefaultBlock}}})},
		{`{"add":{"math":{"min_tokens":3,"packing":{"pool":9},"attention":"row"}},"weights":{"math":0}}`,
			change(mixture.Change{Weights: map[string]float64{"math": 0},
				Add: map[string]mixture.Source{"math": {Epochs: 1, Block: mixture.DefaultBlock, MinTokens: 3,
					Attention: runconfig.AttentionRow,
					Packing:   &packonline.Config{Buckets: []int{16}, Pool: 9}}}})},
		{
			`{"add":{"math":{"packing":{"method":"splice"}},"forum":{"packing":{},"attention":"auto"}},"weights":{"math":0,"forum":0}}`,
			change(mixture.Change{Weights: map[string]float64{"math": 0, "forum": 0},
				Add: map[string]mixture.Source{
					"math": {Epochs: 1, Block: mixture.DefaultBlock, Attention: runconfig.AttentionRow,
						Packing: &packonline.Config{Buckets: []int{16}, Method: "splice"}},
					"forum": {Epochs: 1, Block: mixture.DefaultBlock, Attention: runconfig.AttentionDocument,
						Packing: &packonline.Config{Buckets: []int{16}}},
				}})},
	} {
		f.changes = nil
		want := `{"run":"fake","step":7,"target":{"books":0.125,"code":0.25,"web":0.625}}`
		if tc.want.DryRun {
			want = strings.Replace(want, `7,`, `7,"dry_run":true,`, 1)
		}
		got, err := act(c, "mix", tc.body)
		if err != nil || got != want {
			t.Errorf("mix %s:\n got %s, %v\nwant %s", tc.body, got, err, want)
		}
		if diff := cmp.Diff([]state.MixRequest{tc.want}, f.changes); diff != "" {
			t.Errorf("mix %s (-want +got):\n%s", tc.body, diff)
		}
	}
	if got, err := act(c, "seal", `{"source":"web"}`); err != nil || got != `{"run":"fake","sequence":7,"source":"web"}` ||
		f.askers[len(f.askers)-1] != "seal web by " {
		t.Errorf("seal: %s, %v, by %q", got, err, f.askers)
	}
}

// If the plan already has the change, the response reports that.
func TestMix_ReportsDuplicateChange(t *testing.T) {
	f := shared(newMixed(3, 2, 16, runconfig.AttentionDocument), 0.5, 0.25, 0.25)
	f.mixed = state.MixResult{Step: 5, Weights: map[string]float64{"code": 1, "web": 3, "books": 0}, Duplicate: true}
	c := dial(t, serve(t, f))
	got, err := act(c, "mix", `{"weights":{"code":1},"decided":2}`)
	if want := `{"run":"fake","step":5,"target":{"books":0,"code":0.25,"web":0.75},"again":true}`; err != nil ||
		got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// An invalid body is refused before the run receives the request.
func TestMix_RefusesInvalidBodies(t *testing.T) {
	f := shared(newMixed(3, 2, 16, runconfig.AttentionDocument), 0.5, 0.25, 0.25)
	c := dial(t, serve(t, f))
	for body, says := range map[string]string{
		`{"decided":1}`: "a change that is applied",
		`{"weights":{"web":1},"decided":1,"dry_run":true}`:      "a change that is applied",
		`{"weights":{"web":1},"request_id":"a","dry_run":true}`: "a change that is applied",
		`{"weights":{"web":1},"decided":-1}`:                    "want an integer",
		`{"weights":{"web":1},"decided":null}`:                  "null",
		`{"weights":{"web":1},"request_id":1}`:                  "want a string",
		`{"dry_run":true}`:                                      "without a change",
		`{"add":{"math":{}}}`:                                   "without a weight",
		`{"add":{"math":{"weight":1,"wait":2}}}`:                "unknown field",
		`{"add":{"math":3}}`:                                    "the configuration of a source",
		`{"weights":{"web":"1"}}`:                               "want a number",
		`{"weights":{"web":1,"web":2}}`:                         "twice",
		`{"weights":{"web":1e999}}`:                             `of "web": want a number from 0 to 1e9`,
		`{"weights":[1]}`:                                       "not a JSON object",
		`{"remove":"web"}`:                                      "want a list",
		`{"dry_run":1}`:                                         "want true or false",
		`{"weights":{"web":null}}`:                              "null",
	} {
		if _, err := act(c, "mix", body); infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("mix %s: %v, want %q", body, err, says)
		}
	}
	if len(f.changes) > 0 {
		t.Errorf("changes %v", f.changes)
	}
	f.stats = nil // no daemon leads
	if _, err := act(c, "mix", ``); infoOf(t, err, codes.Unavailable).Reason != "NOT_LEADING" {
		t.Error(err)
	}
}

// Without a change, mix returns the present state: shares of all tokens taken and of the last steps, and what is
// left.
func TestMix_WithoutChangeReturnsState(t *testing.T) {
	f := shared(newMixed(120, 1, 16, runconfig.AttentionDocument), 0.5, 0.25, 0.25)
	for i, s := range f.steps { // 20 steps only of books, then 100 of 12 tokens of code and 4 of web
		s.Rows = [][]packonline.Piece{{{Doc: plan.Ref(2, 1), Length: 16}}}
		if i >= 20 {
			s.Rows = [][]packonline.Piece{{{Doc: plan.Ref(0, 1), Length: 12}, {Doc: plan.Ref(1, 1), Length: 4}}}
		}
	}
	set := func(i int, tokens int64, arrived int64, taken uint64) *state.SourceStats {
		x := &f.stats[i]
		x.Status.Tokens, x.Arrived, x.Taken = tokens, arrived, taken
		return x
	}
	set(0, 600, 10, 10)
	set(1, 200, 20, 20)
	x := set(2, 1200, 30, 5) // the second of four epochs of 25 documents has begun
	x.Sealed, x.Last, x.Epoch, x.Epochs = true, 28, 1, 4
	f.info.Sources[2].Start = 4
	f.stock = []document.StreamState{{Last: 50}, {Last: 20}, {Last: 99}}
	c := dial(t, serve(t, f))
	got, err := act(c, "mix", ``)
	if err != nil {
		t.Fatal(err)
	}
	var have api.MixResponse
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Fatal(err)
	}
	steps := func(n int64) *int64 { return &n }
	want := api.MixResponse{Run: "fake", Step: 120, Tokens: 2000, RecentSteps: 100,
		Target: map[string]float64{"code": 0.5, "web": 0.25, "books": 0.25}, Sources: []api.MixtureSource{
			{Name: "code", Target: 0.5, Share: 0.3, Recent: 0.75, Tokens: 600, Epochs: 1, RemainingDocuments: 40,
				RemainingSteps: steps(40 * 60 / 8)},
			{Name: "web", Target: 0.25, Share: 0.1, Recent: 0.25, Tokens: 200, Epochs: 1, RemainingDocuments: 0,
				RemainingSteps: steps(0)},
			{Name: "books", Target: 0.25, Share: 0.6, Tokens: 1200, Epoch: 1, Epochs: 4, Sealed: true,
				RemainingDocuments: 20 + 2*25,
				RemainingSteps:     steps(70 * 40 / 4)},
		}}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	x.Epochs = mixture.Forever
	f.stats[0].Removed, f.stats[1].Exhausted = true, true
	got, err = act(c, "mix", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	have = api.MixResponse{}
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Fatal(err)
	}
	if s := have.Sources; s[0].RemainingDocuments != 0 || s[1].RemainingDocuments != 0 || s[2].RemainingDocuments != 20 ||
		!s[2].Endless || s[2].RemainingSteps != nil ||
		len(have.Target) != 2 {
		t.Errorf("%s", got)
	}
}

// The role train may view the mixture, and may change it if that is configured. The audit log has each change and
// each refused change, but no queries.
func TestMix_RolesAndAuditLog(t *testing.T) {
	for _, may := range []bool{false, true} {
		var log syncBuffer
		file := filepath.Join(t.TempDir(), "identities.json")
		tokens := map[auth.Role]string{}
		for _, role := range auth.Roles {
			tokens[role] = let(t, file, auth.Identity{Name: "who-" + string(role), Role: role})
		}
		f := shared(newMixed(2, 2, 16, runconfig.AttentionDocument), 0.5, 0.25, 0.25)
		f.stock = make([]document.StreamState, 3)
		cfg := arrowout.Default()
		cfg.Listen, cfg.Identities, cfg.TrainMayMix = "127.0.0.1:0", file, may
		s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err == nil {
			err = s.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, s) })
		c := dial(t, s)
		for _, role := range auth.Roles {
			for body, ok := range map[string]bool{
				``:                                     true,
				`{"weights":{"web":2}}`:                role == auth.Operate || may && role == auth.Train,
				`{"weights":{"web":2},"dry_run":true}`: role == auth.Operate || may && role == auth.Train,
				`{"remove":["web"]}`:                   role == auth.Operate || may && role == auth.Train,
				`{"add":{"m":{"weight":1}}}`:           role == auth.Operate || may && role == auth.Train,
			} {
				stream, err := c.DoAction(withToken(tokens[role]), &flight.Action{Type: "mix", Body: []byte(body)})
				if err := received(stream, &flight.Result{}, err); ok && err != nil || !ok &&
					infoOf(t, err, codes.PermissionDenied).Reason != "FORBIDDEN" {
					t.Errorf("train may mix: %t: mix %s by %s: %v", may, body, role, err)
				}
			}
			stream, err := c.DoAction(withToken(tokens[role]), &flight.Action{Type: "seal", Body: []byte(`{"source":"web"}`)})
			if err := received(stream, &flight.Result{}, err); (err == nil) != (role == auth.Operate) {
				t.Errorf("seal of a source by %s: %v", role, err)
			}
		}
		var lines []string
		count := func(parts ...string) (n int) {
		each:
			for _, line := range lines {
				for _, part := range parts {
					if !strings.Contains(line, part) {
						continue each
					}
				}
				n++
			}
			return n
		}
		eventually(t, "all calls are reported", func() bool { // the log entry follows the response
			lines = strings.Split(log.String(), "\n")
			return count("msg=audit") == 5*len(auth.Roles)
		})
		if n := count("msg=audit", "action=mix"); n != 4*len(auth.Roles) {
			t.Errorf("%d changes are reported, want %d:\n%s", n, 4*len(auth.Roles), log.String())
		}
		for _, parts := range [][]string{
			{"identity=who-operate", "action=mix", "weights=map[web:2]", "dry_run=false"},
			{"identity=who-operate", "action=mix", "add=[m]"},
			{"identity=who-operate", "remove=[web]"}, {"identity=who-read", "action=mix", "FORBIDDEN"},
			{"identity=who-operate", "action=seal", "source=web"},
		} {
			if count(append(parts, "msg=audit")...) == 0 {
				t.Errorf("no line with %q:\n%s", parts, log.String())
			}
		}
		if want := map[bool]int{false: 4, true: 8}[may]; len(f.changes) != want {
			t.Errorf("%d changes, want %d", len(f.changes), want)
		}
	}
}

// The ledger and find return the source of each document.
func TestLedger_ReturnsSourceOfEachDocument(t *testing.T) {
	f := newMixed(2, 2, 16, runconfig.AttentionDocument)
	f.steps[0].Rows = [][]packonline.Piece{{{Doc: plan.Ref(1, 5), Length: 3}, {Doc: plan.Ref(0, 5), Start: 1, Length: 2}},
		{{Doc: plan.Ref(1, 5), Start: 3, Length: 4}}}
	f.steps[1].Rows = nil
	f.hidden.Store(2) // web is unknown at first
	c := dial(t, serve(t, f))
	web, code := `{"source":"web","sequence":5,"start":0,"length":3}`,
		`{"source":"code","sequence":5,"start":1,"length":2}`
	more := `{"source":"web","sequence":5,"start":3,"length":4}`
	lengths := regexp.MustCompile(`"length":(\d+)`)
	found := func(row int, pieces string) string { // if all tokens have a loss
		return fmt.Sprintf(`{"run":"fake","step":0,"bucket":16,"row":%d,"pieces":[%s]}`, row,
			lengths.ReplaceAllString(pieces, `$0,"loss_tokens":$1`))
	}
	f.lookup = []uint64{plan.Ref(0, 5), plan.Ref(1, 5)}
	for _, tc := range []struct{ name, body, want string }{
		{"ledger", `{"step":0}`, `{"run":"fake","step":0,"bucket":16,"cursor":` + fmt.Sprint(f.steps[0].Cursor.Last()) +
			`,"total":2,"first":0,"rows":[[` + web + `,` + code + `],[` + more + `]]}`},
		{"find", `{"source":"web","sequence":5}`, found(0, web) + "\n" + found(1, more)},
		{"find", `{"source":"code","sequence":5}`, found(0, code)},
		{"find", `{"source":"code","sequence":6}`, ""},
		{"find", `{"source":"code","sequence":281474976710661}`, ""}, // 2^48 + 5
		{"find", `{"id":"x"}`, found(0, code) + "\n" + found(0, web) + "\n" + found(1, more)},
		{"find", `{"id":"x","source":"code"}`, found(0, code)},
	} {
		if strings.Contains(tc.body, "id") {
			f.hidden.Store(2)
		}
		if got, err := act(c, tc.name, tc.body); err != nil || got != tc.want {
			t.Errorf("%s %s:\n got %s, %v\nwant %s", tc.name, tc.body, got, err, tc.want)
		}
	}
	f.hidden.Store(0)
	for _, body := range []string{`{"sequence":5}`, `{"source":"nix","sequence":5}`, `{"source":"web"}`,
		`{"source":"nix","id":"x"}`} {
		if _, err := act(c, "find", body); infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" {
			t.Errorf("find %s: %v", body, err)
		}
	}
	if _, err := act(dial(t, serve(t, newFake(1, 1, 16))), "find", `{"source":"web","sequence":1}`); infoOf(t, err,
		codes.InvalidArgument).Reason != "INVALID_TICKET" {
		t.Error(err)
	}
	f.lost = true
	var page api.LedgerPage
	if got, err := act(c, "ledger", `{"step":0,"documents":true}`); err != nil ||
		json.Unmarshal([]byte(got), &page) != nil ||
		!cmp.Equal(page.Documents, []document.Info{{Source: "code", Sequence: 5}, {Source: "web", Sequence: 5}}) {
		t.Errorf("ledger with documents: %s, %v", got, err)
	}
}
