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
	mu     sync.Mutex
	owners map[string]*inbox
}

// inbox is the owner of an inbox, and the number of its subscriptions to it.
type inbox struct {
	owner *producer
	subs  int
}

func (i *inboxes) claim(name string, owner *producer) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.owners[name]
	if x == nil {
		x = &inbox{owner: owner}
		if i.owners == nil {
			i.owners = map[string]*inbox{}
		}
		i.owners[name] = x
	}
	if x.owner != owner {
		return false
	}
	x.subs++
	return true
}

// isOwner reports whether a connection has subscribed to an inbox.
func (i *inboxes) isOwner(name string, owner *producer) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.owners[name]
	return x != nil && x.owner == owner
}

func (i *inboxes) release(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if x := i.owners[name]; x != nil {
		if x.subs--; x.subs == 0 {
			delete(i.owners, name)
		}
	}
}

// inboxName returns the part of a subject that identifies its inbox; empty for a subject of several inboxes.
func inboxName(subject string) string {
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
	name := inboxName(subject)
	switch {
	case name == "":
		c.sendError(fmt.Sprintf("Permissions Violation for Subscription to %q", subject))
		return nil
	case len(c.subs) >= subscriptionLimit:
		c.sendError("maximum subscriptions exceeded")
		return nil
	case !c.proxy.inboxes.claim(name, c):
		c.sendError(fmt.Sprintf("Permissions Violation for Subscription to %q: it is another connection's", subject))
		return nil
	}
	c.subs[sid] = &subscription{inbox: name}
	_, err := fmt.Fprintf(c.serverWriter, "SUB %s %s\r\n", bytes.Join(args[:len(args)-1], blank), sid)
	return err
}

// unsubscribe forwards UNSUB <sid> [<deliveries>]. Deliveries count from the start of the subscription.
func (c *producer) unsubscribe(args [][]byte) error {
	if len(args) < 1 || len(args) > 2 {
		return errProtocol
	}
	most, ok := 0, true
	if len(args) == 2 {
		most, ok = parseNumber(args[1])
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
	if s.remaining = most - s.deliveries; s.remaining <= 0 {
		c.removeSubscription(sid)
	}
	_, err := fmt.Fprintf(c.serverWriter, "UNSUB %s\r\n", bytes.Join(args, blank))
	return err
}

// countDelivery counts a delivery to a subscription.
func (c *producer) countDelivery(sid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[sid]
	if s == nil {
		return
	}
	s.deliveries++
	if s.remaining > 0 {
		if s.remaining--; s.remaining == 0 {
			c.removeSubscription(sid)
		}
	}
}

// removeSubscription removes a subscription. The caller holds c.mu.
func (c *producer) removeSubscription(sid string) {
	if s := c.subs[sid]; s != nil {
		c.proxy.inboxes.release(s.inbox)
		delete(c.subs, sid)
	}
}

func (c *producer) unsubscribeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sid := range c.subs {
		c.removeSubscription(sid)
	}
}
