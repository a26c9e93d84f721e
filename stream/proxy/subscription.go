package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// inboxLimit bounds the subject of a subscription, in bytes.
const inboxLimit = 256

// inboxes records the owners of subscribed inboxes. Each inbox belongs to one connection, so that a response has one
// reader.
type inboxes struct {
	mu sync.Mutex
	of map[string]*inbox
}

// inbox is the owner of an inbox, and the number of its subscriptions to it.
type inbox struct {
	owner *producer
	subs  int
}

func (i *inboxes) take(name string, owner *producer) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.of[name]
	if x == nil {
		x = &inbox{owner: owner}
		if i.of == nil {
			i.of = map[string]*inbox{}
		}
		i.of[name] = x
	}
	if x.owner != owner {
		return false
	}
	x.subs++
	return true
}

// has reports whether a connection has subscribed to an inbox.
func (i *inboxes) has(name string, owner *producer) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.of[name]
	return x != nil && x.owner == owner
}

func (i *inboxes) leave(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if x := i.of[name]; x != nil {
		if x.subs--; x.subs == 0 {
			delete(i.of, name)
		}
	}
}

// inboxOf returns the part of a subject that identifies its inbox; empty for a subject of several inboxes.
func inboxOf(subject string) string {
	rest, found := strings.CutPrefix(subject, inboxPrefix)
	name, _, _ := strings.Cut(rest, ".")
	if !found || name == "*" || name == ">" || len(subject) > inboxLimit {
		return ""
	}
	return name
}

var blank = []byte(" ")

// subscribe forwards SUB <subject> [<queue>] <sid>.
func (c *producer) subscribe(args [][]byte) error {
	if len(args) < 2 || len(args) > 3 {
		return errProtocol
	}
	subject, sid := string(args[0]), string(args[len(args)-1])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[sid] != nil {
		return nil // the server also keeps the first one
	}
	name := inboxOf(subject)
	switch {
	case name == "":
		c.tell(fmt.Sprintf("Permissions Violation for Subscription to %q", subject))
		return nil
	case len(c.subs) >= subscriptionLimit:
		c.tell("maximum subscriptions exceeded")
		return nil
	case !c.p.inboxes.take(name, c):
		c.tell(fmt.Sprintf("Permissions Violation for Subscription to %q: it is another connection's", subject))
		return nil
	}
	c.subs[sid] = &subscription{inbox: name}
	_, err := fmt.Fprintf(c.toServ, "SUB %s %s\r\n", bytes.Join(args[:len(args)-1], blank), sid)
	return err
}

// unsubscribe forwards UNSUB <sid> [<deliveries>]. Deliveries count from the start of the subscription.
func (c *producer) unsubscribe(args [][]byte) error {
	if len(args) < 1 || len(args) > 2 {
		return errProtocol
	}
	most, ok := 0, true
	if len(args) == 2 {
		most, ok = number(args[1])
	}
	if !ok {
		return errProtocol
	}
	sid := string(args[0])
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[sid]
	if s == nil {
		return nil
	}
	if s.left = most - s.seen; s.left <= 0 {
		c.drop(sid)
	}
	_, err := fmt.Fprintf(c.toServ, "UNSUB %s\r\n", bytes.Join(args, blank))
	return err
}

// delivered counts a delivery to a subscription.
func (c *producer) delivered(sid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[sid]
	if s == nil {
		return
	}
	s.seen++
	if s.left > 0 {
		if s.left--; s.left == 0 {
			c.drop(sid)
		}
	}
}

// drop removes a subscription. The caller holds c.mu.
func (c *producer) drop(sid string) {
	if s := c.subs[sid]; s != nil {
		c.p.inboxes.leave(s.inbox)
		delete(c.subs, sid)
	}
}

func (c *producer) unsubscribeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sid := range c.subs {
		c.drop(sid)
	}
}
