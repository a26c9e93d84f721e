package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/server"
)

// After a kill between writing a stream's settings and their checksum, the stream and its messages are present at
// every later start. Damaged settings are not repaired.
func TestMetaChecksum_RestoredAfterKill(t *testing.T) {
	const name = "DOCS"
	for what, c := range map[string]struct {
		tear  func(t *testing.T, settings, sum string)
		there bool
	}{
		"no checksum": {func(t *testing.T, _, sum string) {
			if err := os.Remove(sum); err != nil {
				t.Fatal(err)
			}
		}, true},
		"the checksum of former settings": {func(t *testing.T, settings, sum string) {
			change(t, settings, `"description":"one"`, `"description":"two"`)
			age(t, sum)
		}, true},
		"damaged settings": {func(t *testing.T, settings, sum string) {
			change(t, settings, `"description":"one"`, `"description":"two"`)
			age(t, settings)
		}, false},
		"what is no settings": {func(t *testing.T, settings, sum string) {
			change(t, settings, `{`, `[`)
			age(t, sum)
		}, false},
		"settings of another stream": {func(t *testing.T, settings, sum string) {
			change(t, settings, `"name":"DOCS"`, `"name":"DICS"`)
			age(t, sum)
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			var created time.Time
			inside(t, dir, func(js jetstream.JetStream) {
				st, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"docs.>"},
					Description: "one"})
				if err != nil {
					t.Fatal(err)
				}
				created = st.CachedInfo().Created
				if _, err := js.Publish(t.Context(), "docs.a", []byte("a")); err != nil {
					t.Fatal(err)
				}
			})
			folder := filepath.Join(dir, "jetstream", "DOCUMENTS", "streams", name)
			c.tear(t, filepath.Join(folder, "meta.inf"), filepath.Join(folder, "meta.sum"))
			for range 2 {
				inside(t, dir, func(js jetstream.JetStream) {
					st, err := js.Stream(t.Context(), name)
					if !c.there {
						if err == nil {
							t.Error("the stream is there")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if info := st.CachedInfo(); !info.Created.Equal(created) || info.State.Msgs != 1 {
						t.Errorf("created %v with %d messages, want %v with one", info.Created, info.State.Msgs, created)
					}
				})
			}
		})
	}
}

// inside runs a server on a folder while f runs.
func inside(t *testing.T, dir string, f func(jetstream.JetStream)) {
	t.Helper()
	s, err := start(t, server.Options{Dir: dir, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(s.ProcessLogin(server.Documents)))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f(js)
	c.Close()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// change rewrites a file, with the current modification time.
func change(t *testing.T, file, from, to string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(from)) {
		t.Fatalf("%s has no %s: %s", file, from, content)
	}
	if err := os.WriteFile(file, bytes.Replace(content, []byte(from), []byte(to), 1), 0o640); err != nil {
		t.Fatal(err)
	}
}

// age sets a file's modification time before that of all other files.
func age(t *testing.T, file string) {
	t.Helper()
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, before, before); err != nil {
		t.Fatal(err)
	}
}
