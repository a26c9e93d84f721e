package natstest_test

import (
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
)

// documents creates the document stream of a cluster with n documents, on every member.
func documents(t *testing.T, c *natstest.Cluster, n int) {
	t.Helper()
	s := c.Store()
	if _, err := s.EnsureDocuments(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, natstest.Documents(1, n)...)
	c.AwaitSync("DOCS")
}

// publish tries once to store a document.
func publish(t *testing.T, s *stream.Store, limit time.Duration) error {
	t.Helper()
	_, err := s.JetStream().Publish(natstest.TimeoutContext(t, limit), "docs.test", []byte("x"))
	return err
}

func TestCluster_KeepsThreeReplicas(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := natstest.StartCluster(t, 3)
	t.Logf("a cluster of three takes streams after %v", time.Since(began))
	documents(t, c, 100)
	st, err := c.Store(0).JetStream().Stream(natstest.Context(t), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if got := st.CachedInfo().Config.Replicas; got != 3 {
		t.Errorf("%d copies, want 3", got)
	}
	for i := range 3 {
		if got := c.LastSeq(i, "DOCS"); got != 100 {
			t.Errorf("member %d ends at %d, want 100", i, got)
		}
	}
	before := c.Leader("DOCS")
	if after := c.StepDown("DOCS"); after == before {
		t.Errorf("member %d leads as before it stepped down", after)
	}
	if got := c.MoveLeader("DOCS", before); got != before {
		t.Errorf("member %d leads, want %d", got, before)
	}
}

// An isolated leader still responds as the leader but stores nothing. The other members elect a new leader, whose
// messages are on all members after Heal.
func TestCluster_IsolatedLeaderStoresNothing(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	documents(t, c, 10)
	old := c.Leader("DOCS")
	others := c.Followers("DOCS")
	cutOff, rest := c.Store(old), c.Store(others...)

	c.Isolate(old)
	if err := publish(t, cutOff, time.Second); err == nil {
		t.Error("a leader without followers stored a document")
	}
	st, err := cutOff.JetStream().Stream(natstest.Context(t), "DOCS")
	if err != nil {
		t.Fatalf("a leader that is cut off does not answer: %v", err)
	}
	if info := st.CachedInfo(); info.Cluster == nil || info.Cluster.Leader != cutOff.Conn().ConnectedServerName() {
		t.Errorf("the leader that is cut off names %+v as the leader, want itself", info.Cluster)
	}
	elected := c.Leader("DOCS", others...)
	natstest.Eventually(t, "the others store a document", func() bool { return publish(t, rest, time.Second) == nil })
	if got := c.LastSeq(elected, "DOCS"); got < 11 {
		t.Errorf("the others end at %d, want 11 or more", got)
	}

	c.Heal()
	c.AwaitSync("DOCS")
	if err := publish(t, cutOff, 10*time.Second); err != nil {
		t.Errorf("publish by the healed member: %v", err)
	}
}

func TestCluster_WipedMemberCatchesUp(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	documents(t, c, 1000)
	wiped := c.Followers("DOCS")[0]
	c.Stop(wiped)
	c.Wipe(wiped)
	c.Restart(wiped)
	if got := c.LastSeq(wiped, "DOCS"); got == 1000 {
		t.Fatal("the disk was not wiped")
	}
	c.AwaitSync("DOCS")
	if got := c.LastSeq(wiped, "DOCS"); got != 1000 {
		t.Errorf("the wiped member ends at %d, want 1000", got)
	}
	m, err := c.Store(wiped).JetStream().Stream(natstest.Context(t), "DOCS")
	if err != nil || m.CachedInfo().State.Msgs != 1000 {
		t.Errorf("by the wiped member: %v, %v", m, err)
	}
}

// A killed leader hands nothing over. After a restart it has the same disk and address.
func TestCluster_KilledLeaderDoesNotHandOver(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	documents(t, c, 10)
	killed := c.Leader("DOCS")
	s := c.Store(killed)
	began := time.Now()
	c.Kill(killed)
	c.Leader("DOCS")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("another one leads after %v: the leader handed over", took)
	}
	c.Restart(killed)
	c.AwaitSync("DOCS")
	natstest.Eventually(t, "the store is connected again", func() bool { return s.Status().Connected })
	if err := publish(t, s, 10*time.Second); err != nil {
		t.Error(err)
	}
}

// shortest publishes some documents, one after the other. It returns the shortest time between storing one and its
// arrival on a member, or limit.
func shortest(t *testing.T, c *natstest.Cluster, member int, limit time.Duration) time.Duration {
	t.Helper()
	s, least := c.Store(c.Leader("DOCS")), limit
	for range 2 {
		ack, err := s.JetStream().Publish(natstest.Context(t), "docs.test", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		stored := time.Now()
		for c.LastSeq(member, "DOCS") < ack.Sequence && time.Since(stored) < limit {
			time.Sleep(time.Millisecond)
		}
		least = min(least, time.Since(stored))
	}
	return least
}

func TestCluster_SlowedMemberLags(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	documents(t, c, 10)
	member := c.Followers("DOCS")[0]
	for _, tt := range []struct {
		name string
		slow func()
		want time.Duration
	}{
		{"delayed", func() { c.Lag(member, 800*time.Millisecond) }, 700 * time.Millisecond},
		{"blocked", func() { c.Withhold(member) }, time.Second},
		{"healed, delayed again", func() {
			c.Heal()
			c.AwaitSync("DOCS")
			c.Lag(member, 800*time.Millisecond)
		}, 700 * time.Millisecond},
	} {
		tt.slow()
		if took := shortest(t, c, member, time.Second); took < tt.want {
			t.Errorf("%s: the slow member had a document %v after it was stored, want %v or more", tt.name, took, tt.want)
		}
	}
	c.Heal()
	c.AwaitSync("DOCS")
	if took := shortest(t, c, member, time.Second); took > 600*time.Millisecond {
		t.Errorf("the healed member had no document before %v", took)
	}
}

// A frozen member sends nothing to clients, but participates in the cluster as before.
func TestCluster_FrozenMemberSendsNothing(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	documents(t, c, 10)
	frozen, others := c.Leader("DOCS"), c.Followers("DOCS")
	s := c.Store(frozen)
	c.Freeze(frozen)
	if err := publish(t, s, 300*time.Millisecond); err == nil {
		t.Error("a frozen member answered")
	}
	if err := publish(t, c.Store(others...), 10*time.Second); err != nil {
		t.Errorf("by the others: %v", err)
	}
	if got := c.Leader("DOCS"); got != frozen {
		t.Errorf("member %d leads, want the frozen one, %d", got, frozen)
	}
	c.Thaw(frozen)
	natstest.Eventually(t, "the frozen member answers", func() bool { return publish(t, s, time.Second) == nil })
}

// Each member's disk is persistent: a cluster whose members were all stopped has all documents again.
func TestCluster_RestartOfAllMembersKeepsDocuments(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3, func(o *natstest.ClusterConfig) { o.SyncAlways = true })
	documents(t, c, 10)
	for i := range 3 {
		c.Stop(i)
	}
	for i := range 3 {
		c.Restart(i)
	}
	c.AwaitSync("DOCS")
	st, err := c.Store().JetStream().Stream(natstest.Context(t), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := st.GetMsg(natstest.Context(t), 10); err != nil || string(m.Data) != "document 10" {
		t.Errorf("document 10 is %v, %v", m, err)
	}
}
