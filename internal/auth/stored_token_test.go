package auth_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loaderd/internal/auth"
)

const (
	flightAddress, pageAddress = "127.0.0.1:8815", "127.0.0.1:9815"

	scheme = auth.SignedScheme + " "
)

// opened returns the gate of a daemon that requires the token of a data folder, and that token.
func opened(t *testing.T, dir string) (*auth.Authenticator, string) {
	t.Helper()
	own := auth.FlightToken(dir, "")
	g := open(t, auth.Config{Own: &own})
	g.SetFlightAddress(flightAddress)
	g.SetPageAddress(pageAddress)
	token, err := auth.ReadToken(own.File)
	if err != nil {
		t.Fatal(err)
	}
	return g, token
}

func accepts(t *testing.T, g *auth.Authenticator, authorization ...string) bool {
	t.Helper()
	who, err := g.Identify(authorization, nil)
	var unknown *auth.UnauthenticatedError
	if err != nil && (!errors.As(err, &unknown) || !unknown.Retryable &&
		!strings.Contains(err.Error(), "LOADERD_STREAM__DIR")) {
		t.Errorf("%q: %v", authorization, err)
	}
	if err == nil && (who.Role != auth.Operate || !who.Shared) {
		t.Errorf("%q: %+v", authorization, who)
	}
	return err == nil
}

func TestStoredToken_CreatedOnceWithMode0600(t *testing.T) {
	dir := t.TempDir()
	kept := auth.FlightToken(dir, "")
	first, err := kept.Read()
	if err != nil || !strings.HasPrefix(first, "flight_") {
		t.Fatalf("%q, %v", first, err)
	}
	if info, err := os.Stat(kept.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if again, err := kept.Read(); again != first || err != nil {
		t.Errorf("read again: %q, %v", again, err)
	}
	if err := os.Remove(kept.File); err != nil {
		t.Fatal(err)
	}
	if other, err := kept.Read(); other == first || err != nil {
		t.Errorf("after the file was deleted: %q, %v", other, err)
	}
	const secret = "the secret of a cluster"
	a, err := auth.FlightToken(t.TempDir(), secret).Read()
	b, otherErr := auth.FlightToken(dir, secret).Read()
	if a != b || err != nil || otherErr != nil {
		t.Errorf("members of a cluster have %q and %q: %v, %v", a, b, err, otherErr)
	}
}

func TestStoredToken_RefusesFileReadableByOthers(t *testing.T) {
	kept := auth.FlightToken(t.TempDir(), "")
	write(t, kept.File, "flight_0123456789abcdef\n", 0o644)
	if token, err := kept.Read(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%q, %v", token, err)
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(kept.File, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if token, err := kept.Read(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("of another user: %q, %v", token, err)
	}
}

func TestGate_RequiresTokenOfDataFolder(t *testing.T) {
	g, token := opened(t, t.TempDir())
	other, now := "flight_of_another_data_folder", time.Now()
	for _, c := range []struct {
		name          string
		authorization []string
		want          bool
	}{
		{"nothing", nil, false},
		{"the token", bearer(token), true},
		{"another token", bearer(other), false},
		{"signed", []string{auth.SignCall(token, flightAddress, now)}, true},
		{"signed with another token", []string{auth.SignCall(other, flightAddress, now)}, false},
		{"signed for another port", []string{auth.SignCall(token, "127.0.0.1:8816", now)}, false},
		{"signed for another address of loopback", []string{auth.SignCall(token, "[::1]:8815", now)}, false},
		{"signed for the page", []string{scheme + auth.SignPage(token, flightAddress, now)}, false},
		{"signed before it listened", []string{auth.SignCall(token, flightAddress, now.Add(-time.Second))}, false},
		{"signed for the future", []string{auth.SignCall(token, flightAddress, now.Add(time.Minute))}, false},
		{"a signature as a token", bearer(strings.TrimPrefix(auth.SignCall(token, flightAddress, now), scheme)), false},
		{"half a signature", []string{auth.SignCall(token, flightAddress, now)[:30]}, false},
	} {
		if have := accepts(t, g, c.authorization...); have != c.want {
			t.Errorf("%s: %v", c.name, have)
		}
	}
}

// An open stream remains identified after its signature expires, but not after its token changes.
func TestGate_OpenCallsSurviveSignatureExpiry(t *testing.T) {
	dir := t.TempDir()
	g, token := opened(t, dir)
	signed := []string{auth.SignCall(token, flightAddress, time.Now().Add(-time.Hour))}
	var unknown *auth.UnauthenticatedError
	if _, err := g.Identify(signed, nil); !errors.As(err, &unknown) || !unknown.Retryable {
		t.Errorf("an old signature: %v", err)
	}
	if _, err := g.IdentifyOpenCall(signed, nil); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, auth.FlightTokenFile)); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.IdentifyOpenCall(signed, nil); err == nil || accepts(t, g, bearer(token)...) {
		t.Error("a token that was replaced is good")
	}
}

func TestGate_LoginCodeWorksOnce(t *testing.T) {
	dir := t.TempDir()
	g, token := opened(t, dir)
	now := time.Now()
	code := auth.SignPage(token, pageAddress, now)
	for _, wrong := range []string{"", ".", "17.guess", auth.SignPage(token, flightAddress, now),
		auth.SignPage("another token", pageAddress, now), auth.SignPage(token, pageAddress, now.Add(-time.Hour)),
		strings.TrimPrefix(auth.SignCall(token, pageAddress, now), scheme)} {
		if session, err := g.LogIn(wrong); err == nil {
			t.Errorf("%q opens the page with %q", wrong, session)
		}
	}
	session, err := g.LogIn(code)
	if err != nil || !accepts(t, g, bearer(session)...) {
		t.Fatalf("%q: %q, %v", code, session, err)
	}
	if again, err := g.LogIn(code); err == nil {
		t.Errorf("it opens the page again, with %q", again)
	}
	if next, _ := opened(t, dir); accepts(t, next, bearer(session)...) {
		t.Error("the session outlives the daemon")
	}
	longer := strings.Replace(session, "page_", "page_9", 1)
	if accepts(t, g, bearer(longer)...) {
		t.Error("a page has made its session longer")
	}
	if err := os.Remove(filepath.Join(dir, auth.FlightTokenFile)); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if accepts(t, g, bearer(session)...) {
		t.Error("the session outlives the token")
	}
}

// Clients also sign calls to daemons that do not require signatures.
func TestGate_IgnoresSignaturesWithoutStoredToken(t *testing.T) {
	file := write(t, "token", "0123456789abcdef\n", 0o600)
	g := open(t, auth.Config{TokenFile: file})
	signed := auth.SignCall("0123456789abcdef", flightAddress, time.Now())
	var unknown *auth.UnauthenticatedError
	_, err := g.Identify([]string{signed}, nil)
	if !errors.As(err, &unknown) || unknown.Message != "the call has no bearer token" {
		t.Errorf("%v", err)
	}
	if _, err := open(t, auth.Config{}).Identify([]string{signed}, nil); err != nil {
		t.Error(err)
	}
}

func TestLocalSigner_SignsForLoopbackOnly(t *testing.T) {
	dir := t.TempDir()
	g, token := opened(t, dir)
	for _, address := range []string{"192.0.2.7:8815", "trainer-0:8815", "0.0.0.0:8815", "8815", ""} {
		if header, err := auth.NewLocalSigner(dir, address).Authorization(); err == nil {
			t.Errorf("%q gets %q", address, header)
		}
	}
	for _, address := range []string{"127.0.0.1:8815", "localhost:8815"} {
		header, err := auth.NewLocalSigner(dir, address).Authorization()
		if err != nil || !accepts(t, g, header) || strings.Contains(header, token) {
			t.Errorf("%q: %q, %v", address, header, err)
		}
	}
	if _, err := auth.NewLocalSigner(t.TempDir(), flightAddress).Authorization(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a token: %v", err)
	}
}

func FuzzSignature(f *testing.F) {
	own := auth.StoredToken{File: filepath.Join(f.TempDir(), auth.FlightTokenFile)}
	g, err := auth.Open(auth.Config{Own: &own})
	if err != nil {
		f.Fatal(err)
	}
	g.SetFlightAddress(flightAddress)
	g.SetPageAddress(pageAddress)
	for _, seed := range []string{"", ".", "page_", "page_17.AAAA", "644f1b0c5a3d2.AAAAAAAAAAAAAAAAAAAAAA", "-1.A",
		"7fffffffffffffff.AAAA", "page_9223372036854775807.AAAA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, scheme := range []string{"Bearer ", auth.SignedScheme + " "} {
			if who, err := g.Identify([]string{scheme + text}, nil); err == nil {
				t.Errorf("%q is %+v", scheme+text, who)
			}
		}
		if token, err := g.LogIn(text); err == nil {
			t.Errorf("%q opens the page with %q", text, token)
		}
	})
}
