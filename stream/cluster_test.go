package stream_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// members returns the configurations of a cluster of three embedded servers.
func members(t *testing.T) []stream.Config {
	t.Helper()
	var peers []string
	for range 3 {
		peers = append(peers, natstest.FreeAddress(t))
	}
	secret, configs := natstest.ClusterSecret(t), make([]stream.Config, 3)
	for i := range configs {
		configs[i] = natstest.Config(t)
		configs[i].Replicas = 3
		configs[i].Cluster = server.Cluster{Name: "corpus", Listen: peers[i], Peers: peers, SecretFile: secret}
	}
	return configs
}

// openMembers opens all stores concurrently, because none has JetStream before most of them run.
func openMembers(t *testing.T, configs []stream.Config) []*stream.Store {
	t.Helper()
	stores, opening := make([]*stream.Store, len(configs)), sync.WaitGroup{}
	for i, c := range configs {
		opening.Go(func() {
			s, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
			if err != nil {
				t.Errorf("open member %d: %v", i, err)
				return
			}
			stores[i] = s
		})
	}
	opening.Wait()
	if slices.Contains(stores, nil) {
		t.FailNow()
	}
	return stores
}

// The first member creates the secret in its data folder. Members with a copy of the file can join.
func TestEmbeddedCluster_MembersShareCopiedSecret(t *testing.T) {
	configs := members(t)
	for i := range configs {
		configs[i].Cluster.SecretFile = ""
	}
	stores := make([]*stream.Store, len(configs))
	opening := sync.WaitGroup{}
	open := func(i int) {
		opening.Go(func() {
			var err error
			if stores[i], err = stream.Open(natstest.TimeoutContext(t, time.Minute), configs[i], quiet()); err != nil {
				t.Errorf("open member %d: %v", i, err)
			}
		})
	}
	open(0)
	var secret []byte
	natstest.Eventually(t, "the first member makes the secret", func() (made bool) {
		var err error
		secret, err = os.ReadFile(filepath.Join(configs[0].Dir, server.SecretFile))
		return err == nil
	})
	for i, c := range configs[1:] {
		if err := os.WriteFile(filepath.Join(c.Dir, server.SecretFile), secret, 0o600); err != nil {
			t.Fatal(err)
		}
		open(i + 1)
	}
	opening.Wait()
	for _, s := range stores {
		if s != nil {
			defer s.Close() //nolint:errcheck // the test ends
		}
	}
}

// The servers of three daemons form a cluster: messages stored through one are on all, also while it is down, and
// after all were stopped.
func TestEmbeddedCluster_StoresMessagesOnAllMembers(t *testing.T) {
	configs := members(t)
	stores := openMembers(t, configs)
	ctx := natstest.Context(t)
	stop := func(stores ...*stream.Store) {
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	copies := 0
	natstest.Eventually(t, "the document stream is made", func() bool {
		docs, err := stores[0].EnsureDocuments(ctx)
		if err != nil {
			return false
		}
		copies = docs.CachedInfo().Config.Replicas
		return true
	})
	if copies != 3 {
		t.Errorf("the document stream has %d copies, want 3", copies)
	}
	natstest.Publish(t, stores[0], natstest.Documents(1, 10)...)
	stop(stores[0])
	holds10 := func(s *stream.Store) func() bool {
		return func() bool {
			attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			docs, err := s.JetStream().Stream(attempt, "DOCS")
			return err == nil && docs.CachedInfo().State.LastSeq == 10
		}
	}
	natstest.Eventually(t, "the others hold the documents", holds10(stores[1]))
	stop(stores[1], stores[2])

	stores = openMembers(t, configs)
	defer func() { stop(stores...) }()
	for _, s := range stores {
		natstest.Eventually(t, "all hold the documents after a restart", holds10(s))
	}
}

func TestClusterConfig_RefusesInvalidRoutes(t *testing.T) {
	loopback := []string{"127.0.0.1:1", "localhost:2", "[::1]:3"}
	tests := []struct {
		name string
		edit func(*stream.Config)
		want string // of the error; empty for none
	}{
		{"a cluster of three", func(*stream.Config) {}, ""},
		{"another machine reaches the routes", func(c *stream.Config) { c.Cluster.Listen = "0.0.0.0:6222" },
			"cluster.listen: 0.0.0.0:6222: want a loopback address: routes between machines need certificates"},
		{"other machines, with certificates", func(c *stream.Config) {
			c.Cluster.Listen, c.Cluster.Peers[1] = "0.0.0.0:6222", "host-b:6222"
			c.TLS = conn.TLS{CA: "ca.pem", Cert: "member.pem", Key: "member.key"}
		}, ""},
		{"members that cannot tell whose certificates they see", func(c *stream.Config) {
			c.TLS = conn.TLS{Cert: "member.pem", Key: "member.key"}
		},
			"tls.ca: : want the authorities"},
		{"routes to another machine", func(c *stream.Config) {
			c.Cluster.Peers[1] = "host-b:6222"
		}, "cluster.peers[1]: host-b:6222: want a loopback address"},
		{"no port for routes", func(c *stream.Config) {
			c.Cluster.Listen = "127.0.0.1:0"
		}, "cluster.listen: 127.0.0.1:0: want host:port with a port of 1"},
		{"an address of another machine", func(c *stream.Config) {
			c.Cluster.Advertise = "host-b:6222"
		}, "cluster.advertise: host-b:6222: want a loopback address"},
		{"an address without a port", func(c *stream.Config) { c.Cluster.Advertise = "127.0.0.1" }, "cluster.advertise"},
		{"a peer without a port", func(c *stream.Config) { c.Cluster.Peers[0] = "127.0.0.1" }, "cluster.peers[0]"},
		{"a peer twice", func(c *stream.Config) {
			c.Cluster.Peers[2] = c.Cluster.Peers[0]
		}, "cluster.peers[2]: 127.0.0.1:1: want every member once"},
		{"two members", func(c *stream.Config) { c.Cluster.Peers = loopback[:2] }, "want 3 to 64 addresses"},
		{"a name with a dot", func(c *stream.Config) { c.Cluster.Name = "a.b" }, "cluster.name"},
		{"more copies than members", func(c *stream.Config) {
			c.Replicas = 5
		}, "replicas: 5: want at most the members of the cluster, 3"},
		{"peers without a name", func(c *stream.Config) { c.Cluster.Name, c.Replicas = "", 1 }, "cluster.peers"},
		{"copies without a cluster", func(c *stream.Config) { c.Cluster = server.Cluster{} }, "replicas: 3: want 1"},
		{"with remote servers", func(c *stream.Config) { c.URL = "nats://a:1" }, "cluster.name: corpus: want nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := stream.Default()
			c.Replicas = 3
			c.Cluster = server.Cluster{Name: "corpus", Listen: "127.0.0.1:6222", Peers: append([]string(nil), loopback...)}
			tt.edit(&c)
			var said []string
			for _, e := range c.Validate() {
				said = append(said, e.Error())
			}
			if text := strings.Join(said, "; "); !strings.Contains(text, tt.want) || (text == "") != (tt.want == "") {
				t.Errorf("said %q, want %q", text, tt.want)
			}
		})
	}
}
