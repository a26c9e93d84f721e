package torture_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/server"
)

// fleet is three daemons of one run, each in a process with an embedded server of the cluster that stores their
// streams.
type fleet struct {
	*victim // the first member, for helpers that need one daemon
	members []*victim
	routes  [][]*natstest.Link // routes[i][j] connects member i's server to member j's; nil if i is j
}

func newFleet(t *testing.T, c config.Config) *fleet {
	f := &fleet{}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the-secret-of-all-members\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var listen []string
	for range 3 {
		listen = append(listen, natstest.FreeAddress(t))
	}
	for i := range listen {
		c := c
		c.Stream.Dir, c.Stream.Listen, c.Flight.Listen = t.TempDir(), natstest.FreeAddress(t), natstest.FreeAddress(t)
		// Members reach each other only through links, because their advertised addresses are unreachable.
		c.Stream.Cluster, c.Stream.Replicas = server.Cluster{Name: "torture", Listen: listen[i], Advertise: "127.0.0.1:1",
			SecretFile: secret}, 3
		f.routes = append(f.routes, make([]*natstest.Link, len(listen)))
		for j, to := range listen {
			if j == i {
				c.Stream.Cluster.Peers = append(c.Stream.Cluster.Peers, to)
				continue
			}
			f.routes[i][j] = natstest.NewLink(t, "nats://"+to)
			c.Stream.Cluster.Peers = append(c.Stream.Cluster.Peers, f.routes[i][j].Address())
		}
		f.members = append(f.members, newVictim(t, c))
	}
	f.victim = f.members[0]
	for _, v := range f.members[1:] { // a member that gives up ends the test for all
		v.giveUp = f.giveUp
		v.ctx = f.ctx
	}
	return f
}

// startAll starts all members and waits until they have all streams. Two servers that connect to each other at the
// same time both give way, so one of each two links is cut until then.
func (f *fleet) startAll() {
	f.t.Helper()
	f.mutual((*natstest.Link).Cut)
	for _, v := range f.members {
		v.start()
	}
	f.caughtUp()
	f.mutual((*natstest.Link).Restore)
}

// mutual applies do to one of the two links between any two members.
func (f *fleet) mutual(do func(*natstest.Link)) {
	for i := range f.members {
		for j := range i {
			do(f.routes[j][i])
		}
	}
}

// uris returns the addresses of the daemons for readers.
func (f *fleet) uris() []string {
	var out []string
	for _, v := range f.members {
		out = append(out, v.uri())
	}
	return out
}

// nats returns the addresses of the servers for producers.
func (f *fleet) nats() string {
	var out []string
	for _, v := range f.members {
		out = append(out, natstest.URLWithToken("nats://"+v.c.Stream.Listen, v.c.Stream.Dir, server.ProducerFile))
	}
	return strings.Join(out, ",")
}

// open connects to the running members.
func (f *fleet) open(ctx context.Context) (*stream.Store, error) {
	c := natstest.Config(f.t)
	var urls []string
	for _, v := range f.members {
		urls = append(urls, "nats://"+v.c.Stream.Listen)
	}
	c.URL, c.TokenFile = strings.Join(urls, ","), filepath.Join(f.members[0].c.Stream.Dir, server.OperatorFile)
	return stream.Open(ctx, c, slog.New(slog.DiscardHandler))
}

// do requests an action from the daemons in turn until it succeeds.
func (f *fleet) do(name string, body map[string]any) {
	f.t.Helper()
	doSomewhere(f.ctx, f.t, f.uris(), name, body, f.logs)
}

// logs returns the calls that the daemons could not serve, and the ends of their logs.
func (f *fleet) logs() string {
	var b strings.Builder
	for i, v := range f.members {
		all := v.logged()
		fmt.Fprintf(&b, "daemon %d:\n", i)
		for line := range strings.Lines(all) {
			if strings.Contains(line, "level=ERROR") && strings.Contains(line, "flight call failed") {
				b.WriteString(line)
			}
		}
		fmt.Fprintf(&b, "...\n%s\n", all[max(0, len(all)-4000):])
	}
	return b.String()
}

// between applies a function to both links between a member and each other one: toward it, and from it.
func (f *fleet) between(member int, toward, from func(*natstest.Link)) {
	for j := range f.members {
		if j != member {
			toward(f.routes[j][member])
			from(f.routes[member][j])
		}
	}
}

// mightLead returns the member that leads the run according to a daemon, or the first one.
func (f *fleet) mightLead() int {
	for _, v := range f.members {
		var info loader.Info
		client, err := flightclient.Open(v.uri(), flightclient.Options{})
		if err != nil {
			f.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		err = client.Do(ctx, "info", map[string]any{}, &info)
		cancel()
		_ = client.Close()
		for i, x := range f.members {
			if err == nil && info.Leader == x.uri() {
				return i
			}
		}
	}
	return 0
}

// injection is a fault of one member, or of all, which is over when do returns. Its random draws are from r.
type injection struct {
	name string
	do   func(f *fleet, r *rand.Rand, member int)
}

var faults = []injection{
	{"kill -9", func(f *fleet, r *rand.Rand, i int) {
		f.members[i].kill()
		f.wait(r, 0, 4000)
		f.members[i].start()
	}},
	{"stop and continue", func(f *fleet, r *rand.Rand, i int) { // for longer than the lease lasts
		f.members[i].signal(syscall.SIGSTOP)
		f.wait(r, 500, 6500)
		f.members[i].signal(syscall.SIGCONT)
	}},
	{"clean stop", func(f *fleet, _ *rand.Rand, i int) {
		f.members[i].terminate()
		f.members[i].start()
	}},
	{"kill -9 of two", func(f *fleet, r *rand.Rand, i int) { // no quorum
		j := (i + 1) % len(f.members)
		f.members[i].kill()
		f.members[j].kill()
		f.wait(r, 0, 3000)
		f.members[i].start()
		f.members[j].start()
	}},
	{"the leader is cut off", func(f *fleet, r *rand.Rand, _ int) { f.isolate(r, f.mightLead()) }},
	{"a member is cut off", func(f *fleet, r *rand.Rand, i int) { f.isolate(r, i) }},
	{"messages to a member arrive late", func(f *fleet, r *rand.Rand, i int) {
		late := time.Duration(100+r.IntN(600)) * time.Millisecond
		f.between(i, func(l *natstest.Link) { l.Delay(late, 0) }, func(l *natstest.Link) { l.Delay(0, late) })
		f.wait(r, 2000, 6000)
		f.between(i, (*natstest.Link).Restore, (*natstest.Link).Restore)
	}},
	{"an empty disk", func(f *fleet, _ *rand.Rand, i int) {
		f.caughtUp()
		v := f.members[i]
		v.kill()
		if err := os.RemoveAll(v.c.Stream.Dir); err != nil {
			f.t.Error(err)
		}
		v.start()
		f.caughtUp()
	}},
	{"rolling restart", func(f *fleet, _ *rand.Rand, _ int) {
		for _, v := range f.members {
			f.caughtUp()
			v.terminate()
			v.start()
		}
	}},
}

func (f *fleet) wait(r *rand.Rand, least, most int) {
	pause(f.ctx, time.Duration(least+r.IntN(most-least))*time.Millisecond)
}

// isolate partitions a member's server from the other servers, not from its daemon and its clients.
func (f *fleet) isolate(r *rand.Rand, member int) {
	f.between(member, (*natstest.Link).Cut, (*natstest.Link).Cut)
	f.wait(r, 1000, 9000)
	f.between(member, (*natstest.Link).Restore, (*natstest.Link).Restore)
}

// caughtUp waits until all members have all streams, as an administrator does before one is taken away. Otherwise a
// member with an empty or stale disk and a lagging one could be a majority without messages that the third has
// acknowledged. The servers' own reports are not sufficient, because an empty server reports that it is current.
func (f *fleet) caughtUp() {
	f.t.Helper()
	last := "no answer"
	limit, cancel := context.WithTimeout(f.ctx, 3*time.Minute)
	defer cancel()
	for well := 0; well < 3; {
		if why := f.behind(); why == "" {
			well++
		} else {
			well, last = 0, why
		}
		pause(limit, 300*time.Millisecond)
		if limit.Err() != nil {
			f.t.Fatalf("the members have not caught up: %s\n%s", last, f.logs())
		}
	}
}

// behind returns what a member lacks, as far as that is observable.
func (f *fleet) behind() string {
	ctx, cancel := context.WithTimeout(f.ctx, 15*time.Second)
	defer cancel()
	store, err := f.open(ctx)
	if err != nil {
		return err.Error()
	}
	defer store.Close()
	streams := 0
	for _, account := range []*stream.Store{store, store.Own()} {
		if lacks := f.lacks(ctx, account, &streams); lacks != "" {
			return lacks
		}
	}
	if streams < 4 {
		return fmt.Sprintf("%d streams", streams)
	}
	return ""
}

// lacks returns what a member lacks of an account's streams, and counts the streams.
func (f *fleet) lacks(ctx context.Context, account *stream.Store, streams *int) string {
	list := account.JetStream().ListStreams(ctx)
	for s := range list.Info() {
		*streams++
		if s.Cluster == nil || s.Cluster.Leader == "" || len(s.Cluster.Replicas) != len(f.members)-1 {
			return fmt.Sprintf("stream %s has no leader, or not three copies: %+v", s.Config.Name, s.Cluster)
		}
		for _, p := range s.Cluster.Replicas {
			if !p.Current || p.Offline || p.Lag > 0 {
				return fmt.Sprintf("%s has not all of %s: %+v", p.Name, s.Config.Name, *p)
			}
		}
		if s.Config.MaxMsgsPerSubject > 0 || strings.HasPrefix(s.Config.Name, "OBJ_") {
			continue // replaced values occupy space on some disks
		}
		var least, most int64
		for i, v := range f.members {
			n := messageBytes(v.c.Stream.Dir, s.Config.Name)
			if i == 0 {
				least = n
			}
			least, most = min(least, n), max(most, n)
		}
		if least*10 < most*9-10_000 {
			return fmt.Sprintf("one member has %d bytes of %s, another %d", least, s.Config.Name, most)
		}
	}
	if err := list.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// messageBytes returns the bytes of a stream's messages on a server's disk.
func messageBytes(dir, stream string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") && strings.Contains(path, "/streams/"+stream+"/msgs/") {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
