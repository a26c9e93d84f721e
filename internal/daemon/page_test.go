package daemon

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// fetch requests a path with the given Host header.
func fetch(t *testing.T, d *Daemon, path, host string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.PageURL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = host
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

// An open page does not delay the stop of a daemon.
func TestStop_OpenPageDoesNotDelay(t *testing.T) {
	d := start(t, settings(t))
	r := fetch(t, d, "/api/events", "")
	if b := make([]byte, 1); r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	} else if _, err := io.ReadFull(r.Body, b); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("stopped with %v, %v", err, ctx.Err())
	}
}

// If no token is required, the page is served under this machine's names and the configured names only.
func TestPage_ServedUnderConfiguredNamesOnly(t *testing.T) {
	c := settings(t)
	c.HTTP.Names = []string{"proxy.example"}
	d := start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	for host, want := range map[string]int{"": http.StatusOK, "proxy.example": http.StatusOK,
		"proxy.example:443": http.StatusOK, "localhost": http.StatusOK, "other.example": http.StatusForbidden} {
		for _, path := range []string{"/", "/api/status", "/metrics", "/healthz"} {
			if r := fetch(t, d, path, host); r.StatusCode != want {
				t.Errorf("%s by %q: %s, want %d", path, host, r.Status, want)
			}
		}
	}
}
