package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
)

// Tokens are created, listed and revoked by commands while the daemon runs.
func TestToken_CreateListRevoke(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "identities.json")
	token := func(code int, part string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		have := Run(t.Context(), append([]string{"token"}, append(args, "--identities", file)...), nil, &out, &errs)
		if have != code || !strings.Contains(out.String()+errs.String(), part) {
			t.Errorf("token %v: exit status %d, %s%s, want %d and %q", args, have, out.String(), errs.String(), code, part)
		}
		return strings.TrimSpace(out.String())
	}
	tokenFile := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	operator := tokenFile("operator", token(command.ExitOK, "loaderd_", "create", "operator", "--role", "operate"))
	reader := tokenFile("reader", token(command.ExitOK, "loaderd_", "create", "reader", "--role", "read", "--days", "3"))
	token(command.ExitUsage, "want read, train or operate", "create", "x", "--role", "admin")
	token(command.ExitUsage, "letters, digits", "create", "a b", "--role", "read")
	token(command.ExitFailed, "same name", "create", "reader", "--role", "read")
	token(command.ExitOK, "host.corp", "create", "host", "--role", "train", "--certificate", "host.corp", "--run", "pre*")
	if list := token(command.ExitOK, "operator", "list"); strings.Contains(list, "loaderd_") ||
		len(strings.Split(list, "\n")) != 4 {
		t.Errorf("the list is\n%s", list)
	}
	s.serve("--set", "flight.identities="+file)
	s.does("publish", "--source", "files", corpusFolder(t, map[string]string{"a.txt": "one two three"}))
	refused := func(part, with string, args ...string) {
		t.Helper()
		if with != "" {
			args = append(args, "--token-file", with)
		}
		if code, _, stderr := s.loaderd(args...); code != command.ExitFailed || !strings.Contains(stderr, part) {
			t.Errorf("%v: exit status %d, %s, want %q", args, code, stderr, part)
		}
	}
	refused("the call has no bearer token", "", "seal")
	refused("identity reader lacks permission: action seal needs the role operate, and it has the role read",
		reader, "seal")
	s.does("seal", "--token-file", operator)
	token(command.ExitOK, "revoked operator", "revoke", "operator")
	token(command.ExitFailed, "no such identity", "revoke", "operator")
	for len(operator) > 0 { // within seconds
		if code, _, stderr := s.loaderd("seal", "--token-file", operator); code == command.ExitFailed &&
			strings.Contains(stderr, "bearer token is wrong") {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("a revoked token is still valid")
		}
	}
	if err := os.Chmod(reader, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("chmod 600", reader, "seal")
}

// The producers' token is printed from the daemon's folder.
func TestToken_PrintsProducerToken(t *testing.T) {
	s := newSite(t)
	token := func(args ...string) (int, string) {
		var out bytes.Buffer
		return Run(t.Context(), append([]string{"token", "producer", "--daemon", s.dir}, args...), nil, &out, &out),
			out.String()
	}
	if code, said := token(); code != command.ExitFailed || !strings.Contains(said, "a daemon creates it at its start") {
		t.Errorf("without a daemon: exit status %d, %s", code, said)
	}
	s.serve()
	if code, said := token(); code != command.ExitOK || !strings.HasPrefix(said, "producer_") ||
		strings.Count(said, "\n") != 1 {
		t.Errorf("exit status %d, %s", code, said)
	}
	if code, said := token("--daemon", "nats://127.0.0.1:1"); code != command.ExitUsage ||
		!strings.Contains(said, "stream.url is set") {
		t.Errorf("with other servers: exit status %d, %s", code, said)
	}
}
