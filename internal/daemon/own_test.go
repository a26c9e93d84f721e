package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/loader/fault"
	"loaderd/stream/server"
)

// usual returns settings without any access configuration.
func usual(t *testing.T) config.Config {
	t.Helper()
	c := settings(t)
	c.Flight.Insecure = false
	return c
}

// seals requests a seal of the run, and returns the reason of a rejection.
func seals(t *testing.T, d *Daemon, o flightclient.Options) string {
	t.Helper()
	client, err := flightclient.Open(d.FlightURI(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Seal(t.Context(), "")
	if reason := flightclient.Reason(err); reason != "" || err == nil {
		return reason
	}
	t.Fatal(err)
	return ""
}

// sends sends an HTTP request and returns the status of the response.
func sends(t *testing.T, d *Daemon, method, path, authorization string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, d.PageURL()+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		q.Header.Set("Authorization", authorization)
	}
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// By default another user of the machine can neither commit, leave, seal nor read. Only health checks are answered.
func TestDaemon_RefusesOtherUsers(t *testing.T) {
	c := usual(t)
	d := start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	stranger, err := flightclient.Open(d.FlightURI(), flightclient.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	body := map[string]any{"step": 1, "job": "trainer"}
	for _, action := range []string{"info", "status", "history", "stats", "cause", "commit", "leave", "seal",
		"flush", "mix", "filter", "schedule", "checkpoint", "measure",
		"ledger", "find", "text", "peek"} {
		if err := stranger.Do(t.Context(), action, body, nil); flightclient.Reason(err) != string(fault.InvalidToken) {
			t.Errorf("%s: %v", action, err)
		}
	}
	ignore := func(flightclient.Batch) error { return nil }
	err = stranger.Read(t.Context(), api.Ticket{Rank: 1, World: 2}, ignore)
	if flightclient.Reason(err) != string(fault.InvalidToken) {
		t.Errorf("joins as rank 1 of 2: %v", err)
	}
	conn, err := grpc.NewClient(d.flight.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 0, "/": 200, "/metrics": 401, "/api/status": 401,
		"/api/history": 401, "/api/events": 401, "/api/step/0": 401, "/api/find?sequence=1": 401,
		"/api/text?sequence=1": 401} {
		got := sends(t, d, http.MethodGet, path, "")
		if got != want && want != 0 || got == http.StatusUnauthorized && want == 0 {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	for _, action := range []string{"flush", "seal", "mix", "filter", "schedule", "checkpoint", "measure"} {
		if got := sends(t, d, http.MethodPost, "/api/action/"+action, ""); got != http.StatusUnauthorized {
			t.Errorf("POST %s: %d", action, got)
		}
	}
	name := filepath.Join(c.Stream.Dir, auth.FlightTokenFile)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", name, info, err)
	}
	token, err := auth.ReadToken(name)
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]flightclient.Options{"the token": {Token: token}, "the data folder": {DataDir: c.Stream.Dir}}
	for what, o := range ways {
		if reason := seals(t, d, o); reason != "" {
			t.Errorf("with %s: %s", what, reason)
		}
	}
	if got := sends(t, d, http.MethodGet, "/metrics", "Bearer "+token); got != http.StatusOK {
		t.Errorf("/metrics with the token: %d", got)
	}
	link, err := url.Parse(d.PageLink())
	if err != nil {
		t.Fatal(err)
	}
	code, linked := strings.CutPrefix(link.Fragment, "login=")
	session, err := d.flight.LogIn(t.Context(), auth.Caller{}, code)
	got := sends(t, d, http.MethodGet, "/api/status", "Bearer "+session)
	if !linked || err != nil || got != http.StatusOK {
		t.Errorf("%s: %v, %d", link, err, got)
	}
	if _, err := d.flight.LogIn(t.Context(), auth.Caller{}, code); err == nil {
		t.Error("the link opens the page twice")
	}
}

func TestDaemon_TokenSurvivesRestart(t *testing.T) {
	c := usual(t)
	name := filepath.Join(c.Stream.Dir, auth.FlightTokenFile)
	d := start(t, c)
	first, err := auth.ReadToken(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(d, time.Minute); err != nil {
		t.Fatal(err)
	}
	d = start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	if reason := seals(t, d, flightclient.Options{Token: first}); reason != "" {
		t.Errorf("after a restart: %s", reason)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	d.Reload()
	for seals(t, d, flightclient.Options{Token: first}) == "" { // within seconds
		if t.Context().Err() != nil {
			t.Fatal("the token of the file that was deleted is still good")
		}
	}
	if reason := seals(t, d, flightclient.Options{DataDir: c.Stream.Dir}); reason != "" {
		t.Errorf("with the new token: %s", reason)
	}
}

// A token file of another user, or one that others can read, is rejected.
func TestDaemon_RefusesTokenFileReadableByOthers(t *testing.T) {
	c := usual(t)
	name := filepath.Join(c.Stream.Dir, auth.FlightTokenFile)
	if err := os.WriteFile(name, []byte("flight_0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Errorf("started, and stopped: %v", stop(d, time.Minute))
	} else if !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
}

// With http.insecure, metrics and page can be read without a token under this machine's own names. Changes require a
// token.
func TestDaemon_InsecureHTTPIsReadOnly(t *testing.T) {
	c := usual(t)
	c.HTTP.Insecure = true
	d := start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	for path, want := range map[string]int{"/metrics": 200, "/api/status": 200, "/api/step/0": 403} {
		if got := sends(t, d, http.MethodGet, path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := sends(t, d, http.MethodGet, "/metrics", "Bearer wrong"); got != http.StatusUnauthorized {
		t.Errorf("/metrics with a wrong token: %d", got)
	}
	if got := sends(t, d, http.MethodPost, "/api/action/flush", ""); got != http.StatusForbidden {
		t.Errorf("flush: %d", got)
	}
	if got := fetch(t, d, "/metrics", "other.example").StatusCode; got != http.StatusForbidden {
		t.Errorf("/metrics by another site's name: %d", got)
	}
	if reason := seals(t, d, flightclient.Options{}); reason != string(fault.InvalidToken) {
		t.Errorf("seal by Flight: %q", reason)
	}
}

// A daemon that uses an external NATS server needs its own folder for its token.
func TestDaemon_ExternalServerNeedsFolderForToken(t *testing.T) {
	first := usual(t)
	d := start(t, first)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	c := usual(t)
	c.Run, c.Stream.URL = "other", d.Store().ClientURL()
	c.Stream.TokenFile = filepath.Join(first.Stream.Dir, server.OperatorFile)
	c.Stream.Dir = ""
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Start(ctx, c, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "stream.dir") {
		t.Errorf("without a folder: %v", err)
	}
	c.Stream.Dir = filepath.Join(t.TempDir(), "data")
	other := start(t, c)
	defer stop(other, time.Minute) //nolint:errcheck // the test is over
	if reason := seals(t, other, flightclient.Options{DataDir: c.Stream.Dir}); reason != "" {
		t.Errorf("with the data folder: %s", reason)
	}
	if reason := seals(t, other, flightclient.Options{DataDir: first.Stream.Dir}); reason != string(fault.InvalidToken) {
		t.Errorf("with another data folder: %q", reason)
	}
}
