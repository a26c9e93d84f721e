package daemon

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"loaderd/internal/access"
)

// Metrics are for those who are let in where readers are; health is for everybody.
func TestWhoSeesMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	let := func(i access.Identity) string {
		token, hash := access.NewToken()
		i.SHA256 = hash
		if err := access.Add(file, i); err != nil {
			t.Fatal(err)
		}
		return token
	}
	reader := let(access.Identity{Name: "reader", Role: access.Read})
	other := let(access.Identity{Name: "other", Role: access.Operate, Runs: []string{"other"}})
	c := settings(t)
	c.Flight.Identities = file
	d := start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	_, unknown := access.NewToken()
	for _, tc := range []struct {
		path, token string
		want        int // 0: whatever there is to say
	}{
		{"/metrics", "", http.StatusUnauthorized}, {"/metrics", unknown, http.StatusUnauthorized}, {"/metrics", other, http.StatusForbidden},
		{"/metrics", reader, http.StatusOK}, {"/healthz", "", http.StatusOK}, {"/readyz", "", 0},
		{"/", "", http.StatusOK}, {"/api/status", "", http.StatusUnauthorized}, {"/api/status", other, http.StatusForbidden}, {"/api/status", reader, http.StatusOK},
		{"/api/step/0", reader, http.StatusForbidden},
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.http.url()+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.token != "" {
			q.Header.Set("Authorization", "Bearer "+tc.token)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if refused := r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden; r.StatusCode != tc.want && (tc.want != 0 || refused) {
			t.Errorf("%s with %q: status %d, want %d", tc.path, tc.token, r.StatusCode, tc.want)
		}
	}
}
