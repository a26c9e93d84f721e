package server_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/stream/server"
)

// member is the membership of a cluster whose other members do not run; none without a name.
func member(t *testing.T, cluster string) server.Cluster {
	t.Helper()
	if cluster == "" {
		return server.Cluster{}
	}
	return server.Cluster{Name: cluster, Listen: free(t), Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A member keeps its name with its folder, also on another port: other members know it by that name. Members of one machine have names of their own.
func TestMemberKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	mark := func(dir string) string {
		t.Helper()
		s, err := start(t, server.Options{Dir: dir, Cluster: member(t, "corpus")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Health(); err == nil || !strings.Contains(err.Error(), "stream.cluster.peers") {
			t.Errorf("a member without the others: health is %v", err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "server.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := mark(dir)
	if again := mark(dir); again != first {
		t.Errorf("the mark was %s and is %s", first, again)
	}
	if other := mark(t.TempDir()); other == first {
		t.Errorf("two members have the mark %s", other)
	}
}

func TestRoutePortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := member(t, "corpus")
	c.Listen = l.Addr().String()
	_, err = start(t, server.Options{Dir: t.TempDir(), Cluster: c})
	if err == nil || !strings.Contains(err.Error(), c.Listen) || !strings.Contains(err.Error(), "stream.cluster.listen") {
		t.Errorf("error %v, want one that names %s and stream.cluster.listen", err, c.Listen)
	}
}
