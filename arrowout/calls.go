package arrowout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/tally"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
)

const (
	// maxCalls bounds the open calls of a connection, and the goroutines that serve them.
	maxCalls = 256
	// maxHeaders bounds the metadata of a call as HTTP/2 counts it: each field adds 32 bytes to its name and value.
	maxHeaders = 8 << 10
	// unidentifiedCalls bounds the open calls whose callers have no identity, health checks included. unidentifiedOfOne
	// bounds those of one connection.
	unidentifiedCalls = 256
	unidentifiedOfOne = 16
	// actionsOfOne is how many calls an identity may have open in addition to its streams.
	actionsOfOne = 256
	// identityResetsPerSecond is how many calls per second an identity may cancel beyond a burst, over all its
	// connections. If callers have no identities, the limit applies per host. The burst is about twice the number of
	// calls that an identity may have open by default. So all processes of a cluster may cancel all their calls at the
	// same time.
	identityResetsPerSecond = 100
	identityResetsBurst     = 8192
	// requestWithin is the time limit for a client to send the message of a call.
	requestWithin = 10 * time.Second
	// revokeEvery is how often the identities of open calls are checked.
	revokeEvery = 5 * time.Second
)

// calls bounds open calls from the arrival of their headers. gRPC allocates the metadata, a goroutine and a window
// for a call before any interceptor runs.
type calls struct {
	guard         *guard
	streamsOfOne  func() int // maximum number of open streams per identity
	requestWithin time.Duration

	mu           sync.Mutex
	unidentified int
	ofConnection map[*connection]int // calls without identity
	ofIdentity   map[string]*identityCalls
	open         map[*call]struct{} // calls with an identity
}

func newCalls(g *guard, streamsOfOne func() int) *calls {
	return &calls{guard: g, streamsOfOne: streamsOfOne, requestWithin: requestWithin, ofConnection: map[*connection]int{},
		ofIdentity: map[string]*identityCalls{}, open: map[*call]struct{}{}}
}

// identityCalls has the open calls of one identity.
type identityCalls struct {
	open   int
	resets *rate.Limiter // calls that it may cancel
}

// call is an open call.
type call struct {
	who     auth.Identity
	unknown error // why it has no identity; nil if it has one
	request *time.Timer
	ended   atomic.Bool // by the server, not cancelled by the client
	over    atomic.Bool // its handler has returned

	ctx     context.Context
	method  string
	from    *connection
	cancel  context.CancelCauseFunc
	revoked bool // guarded by calls.mu
}

// callKey is the context key of the call.
type callKey struct{}

func callIn(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// received records that the message of the call has arrived.
func (c *call) received() {
	if c != nil {
		c.request.Stop()
	}
}

// end records that the handler of the call returns. The server counts as the one that ended the call unless the
// client cancelled it earlier.
func (c *call) end(ctx context.Context) {
	if c == nil {
		return
	}
	c.over.Store(true)
	if ctx.Err() == nil {
		c.ended.Store(true)
	}
}

// admit counts a call until it ends, or refuses it. It is a gRPC tap handle, which gRPC calls with the headers of a
// call.
func (c *calls) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	x, from := &call{}, connectionOf(ctx)
	if from != nil && !from.opened() {
		return nil, errConnectionClosed
	}
	x.who, x.unknown = c.guard.identify(ctx, info.FullMethodName, c.guard.gate.Identify)
	identified := x.unknown == nil && !isHealth(info.FullMethodName)
	release, few, err := c.count(x.who, identified, from)
	if err != nil {
		if from != nil {
			from.gaveUp(few)
		}
		return nil, c.guard.refuse(ctx, info.FullMethodName, err).Err()
	}
	done := func() {}
	switch {
	case from == nil:
	case identified:
		done = from.Identified()
	case isHealth(info.FullMethodName):
		from.Served()
	}
	x.method, x.from = info.FullMethodName, from
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(ctx, callKey{}, x))
	x.request = time.AfterFunc(c.requestWithin, func() { x.cancel(nil) })
	if identified {
		c.follow(x)
	}
	context.AfterFunc(x.ctx, func() { // gRPC ends the context of every call
		x.request.Stop()
		x.cancel(nil)
		done()
		byServer := x.ended.Load()
		release(byServer)
		c.leave(x)
		switch {
		case from == nil:
		case byServer:
			from.endedByServer()
		default:
			from.gaveUp(false)
		}
	})
	return x.ctx, nil
}

// follow adds an open call to those whose identity is checked periodically; leave removes it.
func (c *calls) follow(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[x] = struct{}{}
}

func (c *calls) leave(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.revoked { // otherwise followed removes it
		delete(c.open, x)
	}
}

// watch ends calls with a revoked identity, until ctx is done.
func (c *calls) watch(ctx context.Context) {
	tick := time.NewTicker(revokeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.revoke()
		}
	}
}

// revoke ends open calls whose caller is no longer authorized, has another role or has an expired certificate. It
// closes the connection of a call that an earlier revoke ended but whose handler has not returned.
func (c *calls) revoke() {
	open, revoked := c.followed()
	for _, x := range revoked {
		if x.from != nil && !x.over.Load() {
			x.from.Cut()
		}
	}
	for _, x := range open { // without mu, which every new call needs
		who, err := c.guard.identify(x.ctx, x.method, c.guard.gate.IdentifyOpen)
		if err == nil && who.Name == x.who.Name && who.Role == x.who.Role {
			continue
		}
		if err == nil {
			err = &fault.Error{Reason: fault.BadToken, Message: "the identity of the call has changed", Do: "call again"}
		}
		if c.mark(x) {
			x.cancel(err)
		}
	}
}

// followed returns the open calls whose identities are checked. It also returns the revoked calls and removes them.
func (c *calls) followed() (open, revoked []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open = make([]*call, 0, len(c.open))
	for x := range c.open {
		if x.revoked {
			delete(c.open, x)
			revoked = append(revoked, x)
		} else {
			open = append(open, x)
		}
	}
	return open, revoked
}

// mark marks an open call as revoked. It returns false if the call has ended.
func (c *calls) mark(x *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, x.revoked = c.open[x]
	return x.revoked
}

// errConnectionClosed is the error for calls of a closed connection. No client receives it.
var errConnectionClosed = status.Error(codes.Unavailable, "the connection is closed")

// counted records the end of a call, and whether the server ended it or the client cancelled it.
type counted func(byServer bool)

// count counts a call until release is called. With an error, gaveUp reports whether the identity has cancelled too
// many calls.
func (c *calls) count(who auth.Identity, identified bool,
	from *connection) (release counted, gaveUp bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identified {
		return c.countIdentified(who, from)
	}
	if c.unidentified >= unidentifiedCalls {
		return nil, false, refusal.Limited("open calls without an identity", unidentifiedCalls)
	}
	if c.ofConnection[from] >= unidentifiedOfOne {
		return nil, false, refusal.Limited("open calls without an identity of a connection", unidentifiedOfOne)
	}
	c.unidentified++
	c.ofConnection[from]++
	return func(bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unidentified--
		tally.Decrement(c.ofConnection, from)
	}, false, nil
}

// countIdentified is count for a call with an identity. The caller holds mu.
func (c *calls) countIdentified(who auth.Identity, from *connection) (release counted, gaveUp bool, err error) {
	key := who.Name
	if key == "" && from != nil { // all callers are anonymous
		key = from.Host().String()
	}
	of := c.ofIdentity[key]
	if of == nil {
		of = &identityCalls{resets: rate.NewLimiter(identityResetsPerSecond, identityResetsBurst)}
		c.ofIdentity[key] = of
	}
	if most := c.streamsOfOne() + actionsOfOne; of.open >= most {
		return nil, false, refusal.Limited(fmt.Sprintf("open calls of identity %s", who), most)
	}
	if of.resets.Tokens() < 1 {
		return nil, true, refusal.Limited(fmt.Sprintf("calls per second that identity %s gives up", who),
			identityResetsPerSecond)
	}
	of.open++
	return func(byServer bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !byServer {
			of.resets.Allow()
		}
		if of.open--; of.open == 0 && of.resets.Tokens() == identityResetsBurst {
			delete(c.ofIdentity, key)
		}
	}, false, nil
}

// isHealth reports whether a method is a health check, which needs no identity: load balancers have none.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// healthChecks implements health checks without Watch, which would keep a call open for as long as the client wants.
// According to the health checking protocol, load-balancing clients treat UNIMPLEMENTED as healthy.
type healthChecks struct{ *health.Server }

func (healthChecks) Watch(*grpc_health_v1.HealthCheckRequest,
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "health is not watched: call Check")
}
