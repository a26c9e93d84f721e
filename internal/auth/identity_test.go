package auth_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/internal/auth"
)

func write(t *testing.T, name, text string, mode fs.FileMode) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil { // regardless of the umask
		t.Fatal(err)
	}
	return name
}

func open(t *testing.T, c auth.Config) *auth.Authenticator {
	t.Helper()
	g, err := auth.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func bearer(token string) []string { return []string{"Bearer " + token} }

func TestRole_IncludesLowerRoles(t *testing.T) {
	for at, role := range auth.Roles {
		for other, needs := range auth.Roles {
			if role.Includes(needs) != (at >= other) {
				t.Errorf("%s includes %s: %v", role, needs, role.Includes(needs))
			}
		}
	}
	var nobody auth.Identity
	for _, needs := range auth.Roles {
		if nobody.Role.Includes(needs) {
			t.Errorf("nobody may do what takes %s", needs)
		}
	}
}

func TestIdentity_LimitsRunsAndJobs(t *testing.T) {
	for _, c := range []struct {
		who                                auth.Identity
		sees, not, keeps, others, byItself string
	}{
		{auth.Identity{Name: "a", Role: auth.Train}, "any", "", "a a/1 a/", "b ab a-1 trainer", "a"},
		{auth.Identity{Name: "a", Role: auth.Train, Runs: []string{"x", "y*"}, Jobs: []string{"trainer", "k*"}},
			"x y yz", "z xy", "trainer k k9", "a a-1", "trainer"},
		{auth.Identity{Name: "a", Role: auth.Train, Jobs: []string{"k*"}}, "any", "", "k", "a", "a"},
		{auth.Identity{Name: "a", Role: auth.Operate, Jobs: []string{"k"}}, "any", "", "a k trainer", "", "trainer"},
		{auth.Identity{Role: auth.Operate}, "any", "", "trainer", "", "trainer"},
	} {
		check := func(names string, is func(string) bool, want bool) {
			for name := range strings.FieldsSeq(names) {
				if is(name) != want {
					t.Errorf("%+v, %s: %v", c.who, name, !want)
				}
			}
		}
		check(c.sees, c.who.CanAccessRun, true)
		check(c.not, c.who.CanAccessRun, false)
		check(c.keeps, c.who.MayCommitFor, true)
		check(c.others, c.who.MayCommitFor, false)
		if have := c.who.Job("trainer"); have != c.byItself {
			t.Errorf("%+v commits for %s, want %s", c.who, have, c.byItself)
		}
	}
}

func TestIdentitiesFile_AddsAndRemoves(t *testing.T) {
	name := filepath.Join(t.TempDir(), "identities.json")
	token, hash := auth.NewToken()
	other, _ := auth.NewToken()
	if err := auth.Add(name, auth.Identity{Name: "a", Role: auth.Train, SHA256: hash}); err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(name, auth.Identity{Name: "b", Role: auth.Read, Certificate: "b.corp"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil || bytes.Contains(b, []byte(token)) {
		t.Errorf("the file holds the token: %s, %v", b, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	g := open(t, auth.Config{Identities: name})
	if who, err := g.Identify(bearer(token), nil); err != nil || who.Name != "a" || who.Role != auth.Train {
		t.Errorf("Identify = %+v, %v", who, err)
	}
	for _, header := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, bearer(other), bearer(hash), {"Basic " + token},
		{token}} {
		var unknown *auth.UnauthenticatedError
		if who, err := g.Identify(header, nil); !errors.As(err, &unknown) {
			t.Errorf("%q: %+v, %v", header, who, err)
		}
	}
	for _, again := range []auth.Identity{{Name: "a", Role: auth.Read, SHA256: strings.Repeat("0", 64)},
		{Name: "c", Role: auth.Read, SHA256: hash},
		{Name: "c", Role: auth.Read, Certificate: "b.corp"}, {Name: "c", Role: "admin", SHA256: hash[1:] + "0"},
		{Name: "", Role: auth.Read, SHA256: hash[1:] + "0"},
		{Name: "c", Role: auth.Read}, {Name: "c", Role: auth.Read, Certificate: "x", Runs: []string{"a*b"}}} {
		if err := auth.Add(name, again); err == nil {
			t.Errorf("%+v was added", again)
		}
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, b) {
		t.Errorf("what was refused has changed the file: %s, %v", after, err)
	}
	if err := auth.Remove(name, "a"); err != nil {
		t.Fatal(err)
	}
	if err := auth.Remove(name, "a"); !errors.Is(err, auth.ErrNoIdentity) {
		t.Errorf("removed twice: %v", err)
	}
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if who, err := g.Identify(bearer(token), nil); err == nil {
		t.Errorf("revoked, and let in: %+v", who)
	}
}

// Concurrent changes exclude each other, and none is lost.
func TestIdentitiesFile_ConcurrentChangesAreNotLost(t *testing.T) {
	name := filepath.Join(t.TempDir(), "identities.json")
	var all sync.WaitGroup
	var added atomic.Int64
	for n := range 20 {
		all.Go(func() {
			_, hash := auth.NewToken()
			if err := auth.Add(name, auth.Identity{Name: fmt.Sprint("i", n), Role: auth.Read, SHA256: hash}); err == nil {
				added.Add(1)
			} else if !strings.Contains(err.Error(), "is changing the identities") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	kept, err := auth.ReadFile(name)
	if err != nil || int64(len(kept)) != added.Load() || len(kept) == 0 {
		t.Errorf("%d identities of %d that were added, %v", len(kept), added.Load(), err)
	}
}

func TestGate_RefusesExpiredIdentities(t *testing.T) {
	name := filepath.Join(t.TempDir(), "identities.json")
	over, overHash := auth.NewToken()
	soon, soonHash := auth.NewToken()
	at := time.Now().Add(time.Hour)
	for _, i := range []auth.Identity{{Name: "over", Role: auth.Read, SHA256: overHash,
		Expires: time.Now().Add(-time.Second)},
		{Name: "soon", Role: auth.Read, SHA256: soonHash, Expires: at}} {
		if err := auth.Add(name, i); err != nil {
			t.Fatal(err)
		}
	}
	g := open(t, auth.Config{Identities: name})
	if _, err := g.Identify(bearer(soon), nil); err != nil {
		t.Error(err)
	}
	if _, err := g.Identify(bearer(over), nil); err == nil ||
		!strings.Contains(err.Error(), "identity over has expired on") {
		t.Errorf("expired: %v", err)
	}
	if have := g.Expires(); have.After(at) || have.IsZero() {
		t.Errorf("the next one expires %v", have)
	}
}

func TestGate_AcceptsTokenFile(t *testing.T) {
	g := open(t, auth.Config{TokenFile: write(t, "token", " s3cret-0123456789\n", 0o600)})
	if who, err := g.Identify(bearer("s3cret-0123456789"), nil); err != nil || who.Role != auth.Operate {
		t.Errorf("%+v, %v", who, err)
	}
	if who, err := open(t, auth.Config{}).Identify(nil, nil); err != nil || who.Role != auth.Operate {
		t.Errorf("a gate that asks nobody: %+v, %v", who, err)
	}
}

func TestGate_RefusesExpiredCertificates(t *testing.T) {
	g := open(t, auth.Config{Certificates: true})
	for after, ok := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		if _, err := g.Identify(nil, &x509.Certificate{NotAfter: time.Now().Add(after)}); (err == nil) != ok {
			t.Errorf("expires in %v: %v", after, err)
		}
	}
}

func TestGate_RefusesShortTokens(t *testing.T) {
	if _, err := auth.Open(auth.Config{TokenFile: write(t, "token", "fifteen-letters", 0o600)}); err == nil ||
		!strings.Contains(err.Error(), "use at least 16") {
		t.Errorf("got %v", err)
	}
}

func TestOpen_RefusesSecretsReadableByOthers(t *testing.T) {
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o604, 0o660} {
		name := write(t, "token", "s3cret-0123456789", mode)
		if _, err := auth.Open(auth.Config{TokenFile: name}); err == nil ||
			!strings.Contains(err.Error(), "chmod 600 "+name) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if _, err := auth.Open(auth.Config{TokenFile: write(t, "token", "s3cret-0123456789", mode)}); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func TestOpen_RefusesInvalidIdentitiesFiles(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"":                               "EOF",
		"{}":                             "format 0",
		`{"format":2,"identities":[]}`:   "another version",
		`{"format":1,"x":1}`:             "unknown field",
		`{"format":1} {}`:                "data follows",
		`{"format":1,"identities":[{}]}`: "identity 1",
		`{"format":1,"identities":[{"name":"a","role":"read","sha256":"zz"}]}`: "64 hexadecimal digits",
		`{"format":1,"identities":[{"name":"a","role":"root","sha256":"` + hash +
			`"}]}`: "read, train or operate",
		`{"format":1,"identities":[{"name":"a","role":"read","sha256":"` + hash +
			`","token":"x"}]}`: "unknown field",
		`{"format":1,"identities":[{"name":"a\u0000","role":"read","sha256":"` + hash +
			`"}]}`: "letters, digits",
		`{"format":1,"identities":[{"name":"a","role":"read","sha256":"` + hash +
			`","runs":[""]}]}`: "a name, or a prefix",
		`{"format":1,"identities":[{"name":"a","role":"read","certificate":"x"},{"name":"b","role":"read","certificate":"x"}]}`:        "same certificate",
		`{"format":1,"identities":[{"name":"a","role":"read","certificate":"x"},{"name":"a","role":"operate","certificate":"other"}]}`: "same name",
	} {
		name := write(t, "identities.json", text, 0o600)
		if _, err := auth.Open(auth.Config{Identities: name}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want one that names %q and the file", text, err, want)
		}
	}
}

// If a reload fails, the previous data remains valid.
func TestWatchFiles_FailedReloadKeepsPreviousData(t *testing.T) {
	name := write(t, "token", "first-0123456789", 0o600)
	g := open(t, auth.Config{TokenFile: name})
	ctx, stop := context.WithCancel(t.Context())
	var log lines
	var watching sync.WaitGroup
	again := make(chan struct{}, 1)
	watching.Go(func() {
		auth.WatchFiles(ctx, slog.New(slog.NewTextHandler(&log, nil)), again,
			map[string]auth.Reloader{"token": g, "expires": soon{}})
	})
	defer watching.Wait()
	defer stop()
	lets := func(token string) bool { _, err := g.Identify(bearer(token), nil); return err == nil }
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not in 30 s: %s; the log is: %s", what, log.String())
			}
		}
	}
	write(t, name, "second!-0123456789", 0o600)
	again <- struct{}{}
	until("the second token lets in", func() bool { return lets("second!-0123456789") && !lets("first-0123456789") })
	write(t, name, "a b c", 0o600)
	until("a token that is none is reported", func() bool {
		return strings.Contains(log.String(), "event=credentials.reload_failed")
	})
	if !lets("second!-0123456789") {
		t.Error("what could not be read again has taken the place of what was there")
	}
	write(t, name, "third token", 0o600)
	write(t, name, "third-0123456789", 0o600)
	until("the third token lets in by itself", func() bool { return lets("third-0123456789") })
	if strings.Count(log.String(), "event=credentials.expiring") != 1 {
		t.Errorf("the log is: %s", log.String())
	}
}

// soon is a Reloader that expires soon.
type soon struct{}

func (soon) Files() []string    { return nil }
func (soon) Reload() error      { return nil }
func (soon) Expires() time.Time { return time.Now().Add(time.Hour) }

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// A file that Parse accepts is also accepted after a round trip, and its identities may commit for their own jobs.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format":1,"identities":[{"name":"a","role":"read","sha256":"` + strings.Repeat("a", 64) +
		`","runs":["x*"]}]}`))
	f.Add(
		[]byte(`{"format":1,"identities":[{"name":"a","role":"train","certificate":"x","expires":"2026-01-02T03:04:05Z"}]}`))
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := auth.Parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(map[string]any{"format": 1, "identities": all})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := auth.Parse(again); err != nil {
			t.Errorf("%s was taken, and is refused as %s: %v", b, again, err)
		}
		for _, i := range all {
			if !i.MayCommitFor(i.Job("trainer")) && i.Role == auth.Train && len(i.Jobs) == 0 {
				t.Errorf("%+v may not commit for its own job", i)
			}
		}
	})
}
