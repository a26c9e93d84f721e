package natstest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// Cluster is a cluster of NATS servers in this process. Members are numbered from 0. Each listens on separate
// ports, and its connections with clients and other members pass through links, so that a test can stop,
// freeze, delay or cut off any of them. It ends with the test. Its methods are for one goroutine at a time;
// stores may be used concurrently.
type Cluster struct {
	t       testing.TB
	config  ClusterConfig
	members []*member
	routes  [][]*Link // routes[i][j] is the link from member i to member j; nil if i is j
}

// ClusterConfig configures a test's cluster.
type ClusterConfig struct {
	// Stream is the configuration of the stores, without the address: bounds, names and replicas.
	Stream stream.Config
	// SyncAlways syncs every write before it is acknowledged, as the daemon's own server does.
	SyncAlways bool
	// Ping is the interval of pings between members; a member that misses two of them is disconnected. A longer delay of
	// routes breaks them, and so does a loaded machine if Ping is short.
	Ping time.Duration
	// Users may do what their permissions allow; a client without a name may do everything.
	Users []*server.User
	// Accounts is in the format of a server's configuration. Clients without a name use the account LOADERD.
	Accounts string
}

// member is one server of a cluster.
type member struct {
	name    string
	dir     string
	server  *server.Server // nil while it is stopped
	clients *Link
}

// StartCluster starts n servers with empty disks, and waits until streams can be created on them. edit may change the
// configuration first.
func StartCluster(t testing.TB, n int, edit ...func(*ClusterConfig)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, config: ClusterConfig{Stream: Config(t), Ping: 2 * time.Second}}
	c.config.Stream.Replicas = min(n, 3)
	for _, f := range edit {
		f(&c.config)
	}
	for i := range n {
		c.members = append(c.members, &member{name: fmt.Sprintf("n%d", i), dir: t.TempDir(), clients: listenLink(t)})
		c.routes = append(c.routes, make([]*Link, n))
		for j := range n {
			if j != i {
				c.routes[i][j] = listenLink(t)
			}
		}
	}
	t.Cleanup(c.stopAll)
	for i := range n {
		c.start(i)
	}
	// Two members that connect to each other at the same time both back off for a second, so only one of each pair
	// connects first.
	c.openLinks(func(from, to int) bool { return from > to })
	c.awaitRoutes()
	c.openLinks(func(from, to int) bool { return from <= to })
	c.awaitStreams()
	return c
}

// startAll starts all members, which are stopped, and waits until streams can be created on them.
func (c *Cluster) startAll() {
	c.t.Helper()
	for i := range c.members {
		c.start(i)
	}
	c.awaitRoutes()
	c.awaitStreams()
}

// start runs a member's server. Members that start later connect to it, and it to them.
func (c *Cluster) start(i int) {
	c.t.Helper()
	m := c.members[i]
	s, err := server.NewServer(c.options(i))
	if err != nil {
		c.t.Fatalf("natstest: make server %s: %v", m.name, err)
	}
	s.Start()
	m.server = s
	if !s.ReadyForConnections(startTimeout) {
		c.t.Fatalf("natstest: server %s does not listen", m.name)
	}
	c.setLinkTargets()
}

func (c *Cluster) options(i int) *server.Options {
	m, config := c.members[i], c.config
	var routes []*url.URL
	for _, l := range c.routes[i] {
		if l != nil {
			routes = append(routes, &url.URL{Scheme: "nats", Host: l.Address()})
		}
	}
	payload := config.Stream.MaxDocument + stream.HeaderRoom
	users, nobody := config.Users, ""
	if len(users) > 0 {
		nobody = "nobody"
		users = append([]*server.User{{Username: nobody}}, users...)
	}
	o := &server.Options{
		Users: users, NoAuthUser: nobody,
		ServerName: m.name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		MaxPayload: int32(payload), MaxPending: max(server.MAX_PENDING_SIZE, 4*int64(payload)),
		JetStream: true, StoreDir: m.dir, SyncAlways: config.SyncAlways,
		JetStreamMaxStore: 1 << 60, JetStreamMaxMemory: 64 << 20,
		Cluster: server.ClusterOpts{
			Name: "corpus", Host: "127.0.0.1", Port: server.RANDOM_PORT,
			PingInterval: config.Ping, MaxPingsOut: 2,
			PoolSize: -1, // a single connection per pair of members
			// Otherwise members and clients would receive each other's addresses, which bypass the links.
			Advertise: "127.0.0.1:1", NoAdvertise: true,
		},
		Routes: routes,
	}
	if config.Accounts == "" {
		return o
	}
	if err := o.ProcessConfigString(config.Accounts); err != nil {
		c.t.Fatalf("natstest: accounts: %v", err)
	}
	own := slices.IndexFunc(o.Accounts, func(a *server.Account) bool { return a.Name == "LOADERD" })
	o.NoAuthUser = "nobody"
	o.Users = append(o.Users, &server.User{Username: o.NoAuthUser, Account: o.Accounts[own]})
	return o
}

// setLinkTargets sets the target of every link to its server, or to no target if the member is stopped.
func (c *Cluster) setLinkTargets() {
	for j, m := range c.members {
		clients, routes := "", ""
		if m.server != nil {
			clients, routes = m.server.Addr().String(), m.server.ClusterAddr().String()
		}
		m.clients.setTarget(clients)
		for i := range c.members {
			if l := c.routes[i][j]; l != nil {
				l.setTarget(routes)
			}
		}
	}
}

// openLinks opens the chosen links. A link from a member to itself is that of its clients.
func (c *Cluster) openLinks(chosen func(from, to int) bool) {
	for i, m := range c.members {
		for j, l := range c.routes[i] {
			if i == j {
				l = m.clients
			}
			if chosen(i, j) {
				l.serve.Go(l.accept)
			}
		}
	}
}

// awaitRoutes waits until every running member has a route to every other one.
func (c *Cluster) awaitRoutes() {
	c.t.Helper()
	running := c.runningMembers()
	Eventually(c.t, "all members have routes to each other", func() bool {
		return !slices.ContainsFunc(running, func(i int) bool { return c.server(i).NumRoutes() < len(running)-1 })
	})
}

// awaitStreams waits until a stream can be created on all members. Earlier requests get no response or are refused.
func (c *Cluster) awaitStreams() {
	c.t.Helper()
	nc := c.connect(0)
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx := TimeoutContext(c.t, startTimeout)
	probe := jetstream.StreamConfig{Name: "READY", Subjects: []string{"ready"}, Storage: jetstream.MemoryStorage,
		Replicas: c.config.Stream.Replicas}
	c.retry(ctx, "make a stream", func(ctx context.Context) error {
		_, err := js.CreateStream(ctx, probe)
		return err
	})
	c.retry(ctx, "delete a stream", func(ctx context.Context) error {
		err := js.DeleteStream(ctx, probe.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) { // an earlier attempt did it, whose response was lost
			return nil
		}
		return err
	})
}

// retry sends a request every 20 ms, for 200 ms each time, because a cluster without a leader drops requests.
func (c *Cluster) retry(ctx context.Context, what string, ask func(context.Context) error) {
	c.t.Helper()
	for {
		attempt, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err := ask(attempt)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("natstest: %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// connect returns a connection to a member that bypasses its links.
func (c *Cluster) connect(i int) *nats.Conn {
	c.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(c.server(i)))
	if err != nil {
		c.t.Fatalf("natstest: connect to %s: %v", c.members[i].name, err)
	}
	return nc
}

func (c *Cluster) server(i int) *server.Server {
	c.t.Helper()
	m := c.members[i]
	if m.server == nil {
		c.t.Fatalf("natstest: server %s is stopped", m.name)
	}
	return m.server
}

// Config returns the configuration of a store that can connect to all members.
func (c *Cluster) Config() stream.Config { return c.configFor(c.memberIndexes()) }

func (c *Cluster) configFor(members []int) stream.Config {
	config := c.config.Stream
	var urls []string
	for _, i := range members {
		urls = append(urls, c.URL(i))
	}
	config.URL, config.Dir, config.Listen = strings.Join(urls, ","), "", ""
	return config
}

func (c *Cluster) memberIndexes() []int {
	members := make([]int, len(c.members))
	for i := range members {
		members[i] = i
	}
	return members
}

// URL returns the client address of a member, which does not change after a restart.
func (c *Cluster) URL(member int) string { return c.members[member].clients.URL() }

// Store opens a Store on one member, on any of several, or without arguments on any of all. It has no other
// addresses. It closes with the test.
func (c *Cluster) Store(members ...int) *stream.Store {
	c.t.Helper()
	if len(members) == 0 {
		members = c.memberIndexes()
	}
	return openStore(c.t, c.configFor(members))
}

// Stop stops a member gracefully: it hands over its leaderships first.
func (c *Cluster) Stop(member int) {
	c.t.Helper()
	shutDown(c.server(member))
	c.members[member].server = nil
	c.setLinkTargets()
}

// Kill disconnects a member immediately, so that nothing it sends while it stops is received. Its disk is kept.
func (c *Cluster) Kill(member int) {
	c.t.Helper()
	s, m := c.server(member), c.members[member]
	m.server = nil
	c.setLinkTargets()
	m.clients.closeConnections()
	for j := range c.members {
		if j != member {
			c.routes[member][j].setTarget("")
			c.routes[member][j].closeConnections()
			c.routes[j][member].closeConnections()
		}
	}
	shutDown(s)
	c.setLinkTargets()
}

// Wipe empties the disk of a stopped member.
func (c *Cluster) Wipe(member int) {
	c.t.Helper()
	m := c.members[member]
	if m.server != nil {
		c.t.Fatalf("natstest: wipe the disk of server %s, which runs", m.name)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "jetstream")); err != nil {
		c.t.Fatal(err)
	}
}

// Restart starts a member, and stops it first if it runs. It does not wait until the member has caught up; Settle
// does.
func (c *Cluster) Restart(member int) {
	c.t.Helper()
	if c.members[member].server != nil {
		c.Stop(member)
	}
	c.start(member)
}

func (c *Cluster) stopAll() {
	var done sync.WaitGroup
	for _, m := range c.members {
		if m.server != nil {
			done.Go(func() {
				shutDown(m.server)
				m.server = nil
			})
		}
	}
	done.Wait()
	c.setLinkTargets()
}

func shutDown(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// runningMembers returns the members that are not stopped.
func (c *Cluster) runningMembers() []int {
	return slices.DeleteFunc(c.memberIndexes(), func(i int) bool { return c.members[i].server == nil })
}
