package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const account = server.DEFAULT_GLOBAL_ACCOUNT

// IsLeader reports whether a member considers itself the leader of a stream. A member that was cut off does so for a
// while.
func (c *Cluster) IsLeader(member int, stream string) bool {
	s := c.members[member].server
	return s != nil && s.JetStreamIsStreamLeader(account, stream)
}

// Leader waits until exactly one of the given members, or of all members by default, leads a stream.
func (c *Cluster) Leader(stream string, among ...int) int {
	c.t.Helper()
	if len(among) == 0 {
		among = c.memberIndexes()
	}
	var leader int
	Eventually(c.t, fmt.Sprintf("one of the members %v leads %s", among, stream), func() bool {
		leaders := 0
		for _, i := range among {
			if c.IsLeader(i, stream) {
				leader = i
				leaders++
			}
		}
		return leaders == 1
	})
	return leader
}

// Followers returns the running members that do not lead a stream, after another member leads it.
func (c *Cluster) Followers(stream string) []int {
	c.t.Helper()
	leader := c.Leader(stream)
	var followers []int
	for _, i := range c.runningMembers() {
		if i != leader {
			followers = append(followers, i)
		}
	}
	return followers
}

// LastSeq returns the last sequence in a member's own copy of a stream; 0 if it has no copy or is stopped.
func (c *Cluster) LastSeq(member int, stream string) uint64 {
	s := c.members[member].server
	if s == nil {
		return 0
	}
	detail, err := s.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return 0
	}
	for _, st := range detail.Streams {
		if st.Name == stream {
			return st.State.LastSeq
		}
	}
	return 0
}

// AwaitSync waits until one member leads each of these streams and all running members are up to date.
func (c *Cluster) AwaitSync(streams ...string) {
	c.t.Helper()
	for _, name := range streams {
		leader := c.Leader(name)
		Eventually(c.t, "all members have what the leader of "+name+" has", func() bool {
			for _, i := range c.runningMembers() {
				if c.LastSeq(i, name) != c.LastSeq(leader, name) || !c.server(i).JetStreamIsStreamCurrent(account, name) {
					return false
				}
			}
			return true
		})
	}
}

// StepDown moves the leadership of a stream from its leader to another member, and returns the new leader.
func (c *Cluster) StepDown(stream string) int {
	c.t.Helper()
	followers := c.Followers(stream)
	return c.MoveLeader(stream, followers[0])
}

// MoveLeader makes a member the leader of a stream, and returns it.
func (c *Cluster) MoveLeader(stream string, to int) int {
	c.t.Helper()
	nc := c.connect(to)
	defer nc.Close()
	want, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": c.members[to].name}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.retry(Context(c.t), "move the leader of "+stream, func(ctx context.Context) error {
		if c.IsLeader(to, stream) {
			return nil
		}
		reply, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, want)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		answer := ""
		if reply != nil {
			answer = string(reply.Data)
		}
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if c.IsLeader(to, stream) {
				return nil
			}
		}
		return fmt.Errorf("%s does not lead yet: %s", c.members[to].name, strings.TrimSpace(answer))
	})
	return c.Leader(stream)
}
