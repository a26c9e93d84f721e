package arrowout_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
)

// asks sends an action through the HTTP entry point and returns the reason if it is refused.
func asks(t *testing.T, s *arrowout.Server, from auth.Caller, action, body string) ([]json.RawMessage, fault.Reason) {
	t.Helper()
	results, err := s.DoAction(t.Context(), from, action, []byte(body))
	var e *fault.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%s: %v is no typed error", action, err)
	}
	if e != nil {
		return nil, e.Reason
	}
	return results, ""
}

// A caller by HTTP has the permissions that its token has on Flight.
func TestHTTPCalls_HavePermissionsOfToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	f := newFake(2, 2, 16)
	tokens := map[auth.Role]string{}
	for _, role := range auth.Roles {
		tokens[role] = let(t, file, auth.Identity{Name: string(role), Role: role})
	}
	s := serve(t, f, func(c *arrowout.Config) { c.Identities = file })
	away := "192.0.2.7:1234"
	for _, c := range []struct {
		token, action, body string
		want                fault.Reason
	}{
		{"", "status", "", fault.InvalidToken},
		{"wrong", "status", "", fault.InvalidToken},
		{tokens[auth.Read], "status", "", ""},
		{tokens[auth.Read], "flush", "", fault.Forbidden},
		{tokens[auth.Read], "ledger", `{"step":0}`, fault.Forbidden},
		{tokens[auth.Train], "commit", `{"step":1}`, ""},
		{tokens[auth.Train], "checkpoint", "", fault.Forbidden},
		{tokens[auth.Operate], "flush", "", ""},
		{tokens[auth.Operate], "ledger", `{"step":0}`, ""},
		{tokens[auth.Operate], "ledger", `{"step":"x"}`, fault.InvalidTicket},
		{tokens[auth.Operate], "no such action", "", fault.Unsupported},
	} {
		from := auth.Caller{Address: away}
		if c.token != "" {
			from.Authorization = []string{"Bearer " + c.token}
		}
		if _, reason := asks(t, s, from, c.action, c.body); reason != c.want {
			t.Errorf("%s by %.4q: %q, want %q", c.action, c.token, reason, c.want)
		}
	}
}

// The status lists the actions that its caller may use.
func TestHTTPCalls_StatusListsPermittedActions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	read := let(t, file, auth.Identity{Name: "read", Role: auth.Read})
	operate := let(t, file, auth.Identity{Name: "operate", Role: auth.Operate})
	s := serve(t, newFake(2, 2, 16), func(c *arrowout.Config) { c.Identities = file })
	may := func(token string) []string {
		results, reason := asks(t, s, auth.Caller{Authorization: []string{"Bearer " + token}}, "status", "")
		var status api.Status
		if reason != "" || json.Unmarshal(results[0], &status) != nil || status.Planned != 7 {
			t.Fatalf("%s, %s", reason, results)
		}
		return status.AllowedActions
	}
	if names := may(read); !slices.Contains(names, "history") || slices.Contains(names, "flush") ||
		slices.Contains(names, "commit") || slices.Contains(names, "mix") {
		t.Errorf("read may %v", names)
	}
	if names := may(operate); !slices.Contains(names, "flush") || !slices.Contains(names, "mix") ||
		!slices.Contains(names, "ledger") {
		t.Errorf("operate may %v", names)
	}
}

// If no token is required, callers on this machine may use all actions by HTTP, and remote callers may only read.
func TestHTTPCalls_RemoteCallersMayOnlyRead(t *testing.T) {
	s := serve(t, newFake(2, 2, 16))
	for address, want := range map[string]fault.Reason{"127.0.0.1:99": "", "[::1]:99": "", "[::ffff:127.0.0.1]:99": "",
		"192.0.2.7:99": fault.Forbidden, "": fault.Forbidden, "x": fault.Forbidden} {
		if _, reason := asks(t, s, auth.Caller{Address: address}, "flush", ""); reason != want {
			t.Errorf("flush from %q: %q, want %q", address, reason, want)
		}
		if _, reason := asks(t, s, auth.Caller{Address: address}, "status", ""); reason != "" {
			t.Errorf("status from %q: %q", address, reason)
		}
	}
}

func TestHTTPCalls_ProxiedCallersAreNotLocal(t *testing.T) {
	s := serve(t, newFake(2, 2, 16))
	from := auth.Caller{Address: "127.0.0.1:99", Forwarded: true}
	if _, reason := asks(t, s, from, "flush", ""); reason != fault.Forbidden {
		t.Errorf("flush: %q", reason)
	}
	if _, reason := asks(t, s, from, "status", ""); reason != "" {
		t.Errorf("status: %q", reason)
	}
}

func TestServer_ProxiedCallersAreNotLocal(t *testing.T) {
	for listen, exposed := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		s := serve(t, newFake(2, 2, 16), func(c *arrowout.Config) { c.Insecure, c.Listen = true, listen })
		c := dial(t, s)
		for _, header := range []string{"", "forwarded", "x-forwarded-for", "via", "x-real-ip"} {
			ctx := t.Context()
			if header != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, header, "192.0.2.7")
			}
			stream, err := c.DoAction(ctx, &flight.Action{Type: "flush"})
			err = received(stream, &flight.Result{}, err)
			if want := header != "" && !exposed; want != (status.Code(err) == codes.PermissionDenied) {
				t.Errorf("%s, header %q: %v", listen, header, err)
			}
		}
	}
}
