package arrowout_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"loaderd/loader/mixture"
	"loaderd/loader/state"
)

// A filter is replaced with "where" and the role operate, and shown without it to every role.
func TestFilter_ChangesAndShows(t *testing.T) {
	f := newFake(1, 1, 4)
	f.stats = []state.SourceStats{{Status: mixture.Status{Name: "web"}, Where: "id == ''"}}
	f.where = "tokens > 1"
	c := dial(t, serve(t, f))
	for _, tc := range []struct {
		body, want string
		asks       []state.FilterRequest
	}{
		{`{}`, `"where":"tokens \u003e 1","sources":{"web":"id == ''"}`, nil},
		{`{"where":""}`, `"where":"","sources":{"web":"id == ''"}`, []state.FilterRequest{{}}},
		{`{"where":"","source":"web"}`, `"sources":{}`, []state.FilterRequest{{Source: "web"}}},
		{`{"where":"true","source":"web","dry_run":true}`, `"dry_run":true`,
			[]state.FilterRequest{{Source: "web", Where: "true", DryRun: true}}},
	} {
		f.filters = nil
		got, err := act(c, "filter", tc.body)
		if err != nil || !strings.Contains(got, tc.want) || !slices.Equal(f.filters, tc.asks) {
			t.Errorf("%s: %s, %v, requests %+v", tc.body, got, err, f.filters)
		}
	}
	if _, err := act(c, "filter", `{"source":"web"}`); infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" {
		t.Errorf("a source without where: %v", err)
	}
}
