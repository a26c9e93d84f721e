package action

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// about is a run that has started.
var about = loader.Info{Run: "r1", ID: strings.Repeat("1a", 16), HasPlan: true, Config: runconfig.Config{
	Sources: map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}},
}, Sources: []plan.SourceInfo{{SourceBegin: plan.SourceBegin{Name: "docs", Start: 1}}}}

// An action that names a run by id is refused permanently only if the plan is known to belong to another run.
func TestParseAction_UnknownRunIDBeforePlanIsTransient(t *testing.T) {
	commit := []byte(`{"run_id":"` + strings.Repeat("2b", 16) + `","step":1}`)
	for _, tc := range []struct {
		what  string
		info  loader.Info
		wants fault.Reason
	}{
		{"not begun, or not read yet", loader.Info{Run: "r1", Config: about.Config}, fault.NotLeading},
		{"begun again", about, fault.RunReplaced},
	} {
		_, err := parseAction(commit, All[0], tc.info)
		var typed *fault.Error
		if !errors.As(err, &typed) || typed.Reason != tc.wants {
			t.Errorf("%s: got %v, want %s", tc.what, err, tc.wants)
		}
	}
}

func FuzzActionBody(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"step":3}`, `{"run":"r1","step":3}`, `{"step":-3}`,
		`{"weights":{"web":1},"add":{"m":{"weight":1,"packing":{"pool":3}}},"remove":["a"],"dry_run":true}`,
		`{"weights":{"web":1},"request_id":"a"}`, `{"source":"a","sequence":1}`,
		`{"source":"a","sequence":1,"start":2,"tokens":4096}`, `{"sequence":1,"tokens":0}`, `{"documents":16,"tokens":1}`,
		`{"documents":true}`, `{"source":"","documents":17}`,
		`{"step":null}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range All {
			var typed *fault.Error
			if _, err := parseAction(b, a, about); err != nil && !errors.As(err, &typed) {
				t.Fatalf("untyped error %v", err)
			}
		}
	})
}

// A reader may view filters, schedules and mixtures, but is not listed as permitted to change them.
func TestPermittedActions_OfReaders(t *testing.T) {
	h := &Handler{allActions: All}
	for _, role := range []auth.Role{auth.Read, auth.Operate} {
		names := h.permittedActions(auth.Identity{Role: role})
		for _, name := range []string{"mix", "filter", "schedule"} {
			if slices.Contains(names, name) != (role == auth.Operate) {
				t.Errorf("role %s: actions %v", role, names)
			}
		}
	}
}
