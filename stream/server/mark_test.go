package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/stream/server"
)

// A folder is of one cluster or of a server alone, from its first start on; the other way it would lose its streams.
func TestFolderOfAnotherCluster(t *testing.T) {
	const alone = ""
	tests := []struct {
		name     string
		prepare  func(t *testing.T, dir string)
		is, want string
	}{
		{"new folder alone", nil, alone, "a member of cluster corpus"},
		{"folder from before marks", func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, alone, "a member of cluster corpus"},
		{"member started alone", nil, "corpus", "a server that stands alone"},
		{"member of another cluster", nil, "corpus", "a member of cluster other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.prepare != nil {
				tt.prepare(t, dir)
			}
			run := func(cluster string) error {
				s, err := start(t, server.Options{Dir: dir, Cluster: member(t, cluster)})
				if err != nil {
					return err
				}
				return s.Stop()
			}
			if tt.prepare == nil {
				if err := run(tt.is); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range []string{"corpus", "other", alone} {
				err := run(other)
				if (err != nil) != (other != tt.is) {
					t.Errorf("cluster %q: %v", other, err)
				}
				if err != nil && !errors.Is(err, server.ErrOtherCluster) {
					t.Errorf("cluster %q: %v, want ErrOtherCluster", other, err)
				}
			}
			other := strings.TrimPrefix(strings.TrimPrefix(tt.want, "a member of cluster "), "a server that stands alone")
			err := run(other)
			for _, part := range []string{dir, tt.want, "stream.dir", "stream.cluster.name", "loaderd cluster migrate"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not name %q", err, part)
				}
			}
		})
	}
}

// One member cannot answer for its cluster.
func TestMemberAlone(t *testing.T) {
	_, err := start(t, server.Options{Dir: t.TempDir(), Private: true, Cluster: member(t, "corpus")})
	if err == nil || !strings.Contains(err.Error(), "stream.url") {
		t.Errorf("error %v, want one that says whom to ask", err)
	}
}

func TestMarkThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "{", `{"format":3,"cluster":"","server":"loaderd"}`, `{"format":1}`} {
		dir := t.TempDir()
		name := filepath.Join(dir, "server.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := start(t, server.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: server %v, error %v, want one that names %s", text, s, err, name)
		}
		if after, err := os.ReadFile(name); err != nil || string(after) != text {
			t.Errorf("%q was replaced by %q, %v", text, after, err)
		}
	}
}
