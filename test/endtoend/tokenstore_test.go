package endtoend_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
)

// The steps of a run are the same bytes after any damage to the files of the token store between two starts.
func TestTokenStore_DamageChangesNoBatch(t *testing.T) {
	c := daemontest.Settings(t, "")
	c.Serve.CacheBytes = 1 << 20 // documents leave the memory
	folder := filepath.Join(c.Stream.Dir, "tokens")
	d := daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(d.Store()), daemontest.GoSource(t, 300))
	daemontest.Seal(t, d)
	want := readFromStart(t, d.FlightURI())
	daemontest.Stop(t, d)
	change := func(f func([]byte) []byte) func(*testing.T) {
		return func(t *testing.T) {
			for _, name := range tokenSegments(t, folder) {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(*testing.T)
	}{
		{"none", func(*testing.T) {}},
		{"flipped bits", change(func(b []byte) []byte {
			for i := 2; i < 8; i++ { // most bytes of a segment are ids of tokens
				b[len(b)/i] ^= 4
			}
			return b
		})},
		{"truncated", change(func(b []byte) []byte { return b[:len(b)/2] })},
		{"deleted", func(t *testing.T) {
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
		}},
		{"not writable", func(t *testing.T) { // as on a full disk: no folder can be created
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(folder, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name != "none" && tc.name != "not writable" && len(tokenSegments(t, folder)) == 0 {
				t.Fatal("the token store is empty")
			}
			tc.damage(t)
			d := daemontest.Start(t, c)
			defer daemontest.Stop(t, d)
			if got := readFromStart(t, d.FlightURI()); !reflect.DeepEqual(got, want) {
				t.Error("the steps differ")
			}
		})
	}
}

// readFromStart returns all steps without their metadata, which has times.
func readFromStart(t *testing.T, uri string) []flightclient.Batch {
	t.Helper()
	steps := daemontest.Read(t, uri, api.Ticket{})
	for i := range steps {
		steps[i].Meta = api.Metadata{}
	}
	return steps
}

func tokenSegments(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
