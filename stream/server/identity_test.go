package server_test

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream/server"
)

// A folder belongs to one cluster or to a standalone server from its first start. Using it for the other kind
// would lose its streams.
func TestFolder_BelongsToOneCluster(t *testing.T) {
	const alone = ""
	tests := []struct {
		name     string
		is, want string
	}{
		{"new folder alone", alone, "a member of cluster corpus"},
		{"member started alone", "corpus", "a standalone server"},
		{"member of another cluster", "corpus", "a member of cluster other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(cluster string) error {
				s, err := start(t, server.Options{Dir: dir, Cluster: member(t, cluster)})
				if err != nil {
					return err
				}
				return s.Stop()
			}
			if err := run(tt.is); err != nil {
				t.Fatal(err)
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
			other := strings.TrimPrefix(strings.TrimPrefix(tt.want, "a member of cluster "), "a standalone server")
			err := run(other)
			for _, part := range []string{dir, tt.want, "stream.dir", "stream.cluster.name", "loaderd cluster migrate"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not name %q", err, part)
				}
			}
		})
	}
}

// A cluster's streams cannot be opened with only one member.
func TestMember_CannotOpenStreamsAlone(t *testing.T) {
	_, err := start(t, server.Options{Dir: t.TempDir(), Private: true, Cluster: member(t, "corpus")})
	if err == nil || !strings.Contains(err.Error(), "stream.url") {
		t.Errorf("error %v, want one that states whom to ask", err)
	}
}

func TestFolder_RefusesInvalidServerFile(t *testing.T) {
	for _, text := range []string{"", "{", `{"format":3,"cluster":"","server":"loaderd"}`, `{"format":2}`} {
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

// A refused start leaves a new folder empty, so that another program or a corrected configuration finds it unused.
func TestStart_RefusedStartLeavesNewFolderEmpty(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // the test ends
	tests := []struct {
		name string
		o    server.Options
	}{
		{"port in use", server.Options{Listen: taken.Addr().String()}},
		{"address without port", server.Options{Listen: "127.0.0.1"}},
		{"certificate is missing", server.Options{Listen: "127.0.0.1:0", Cert: "absent.pem", Key: "absent.pem"}},
		{"cluster secret is missing", server.Options{Listen: "127.0.0.1:0",
			Cluster: server.Cluster{Name: "corpus", Listen: natstest.FreeAddress(t),
				Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, SecretFile: "absent"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Dir, tt.o.MaxPayload = filepath.Join(t.TempDir(), "data"), 1<<20
			s, err := server.Start(t.Context(), tt.o, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal(errors.Join(errors.New("the server started"), s.Stop()))
			}
			if files := natstest.ReadFolder(t, tt.o.Dir); len(files) != 1 {
				t.Errorf("after %v the folder holds %q", err, slices.Sorted(maps.Keys(files)))
			}
		})
	}
}
