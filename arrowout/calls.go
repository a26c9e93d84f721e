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
	// maxHeaders bounds the metadata of a call, by the count of HTTP/2: 32 bytes per field in addition to its name and
	// value.
	maxHeaders = 8 << 10
	// unidentifiedCalls bounds the open calls whose callers have no identity, health checks among them; unidentifiedOfOne
	// those of a connection.
	unidentifiedCalls = 256
	unidentifiedOfOne = 16
	// actionsOfOne is how many calls an identity may have open in addition to its streams.
	actionsOfOne = 256
	// identityResetsPerSecond is how many calls per second an identity may give up beyond a burst, over all its
	// connections. Where callers are not asked who they are it holds for a host. The burst is about twice the calls that
	// it may have open by default: all processes of a cluster may give up all of theirs at once.
	identityResetsPerSecond = 100
	identityResetsBurst     = 8192
	// requestWithin is how long a client may take to send the message of a call.
	requestWithin = 10 * time.Second
	// revokeEvery is how often the identities of open calls are checked.
	revokeEvery = 5 * time.Second
)

// calls bounds open calls from the moment that their headers have arrived: gRPC takes memory for the metadata, a
// goroutine and a window for a call, before any interceptor runs.
type calls struct {
	guard         *guard
	streamsOfOne  func() int // how many streams an identity may have open
	requestWithin time.Duration

	mu           sync.Mutex
	unidentified int
	ofConnection map[*connection]int // unidentified
	ofIdentity   map[string]*identityCalls
	open         map[*call]struct{} // identified
}

func newCalls(g *guard, streamsOfOne func() int) *calls {
	return &calls{guard: g, streamsOfOne: streamsOfOne, requestWithin: requestWithin, ofConnection: map[*connection]int{},
		ofIdentity: map[string]*identityCalls{}, open: map[*call]struct{}{}}
}

// identityCalls are the calls of an identity.
type identityCalls struct {
	open   int
	resets *rate.Limiter // calls that it may give up
}

// call is an open call.
type call struct {
	who     auth.Identity
	unknown error // why it has no identity
	request *time.Timer
	ended   atomic.Bool // by the server, not by the client
	over    atomic.Bool // its handler has returned

	ctx     context.Context
	method  string
	from    *connection
	cancel  context.CancelCauseFunc
	revoked bool // under the mu of calls
}

// callKey is the key of the call in a context.
type callKey struct{}

func callIn(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// received notes that the message of the call has arrived.
func (c *call) received() {
	if c != nil {
		c.request.Stop()
	}
}

// end notes that the handler of the call returns; the server ends it, if the client has not given it up before.
func (c *call) end(ctx context.Context) {
	if c == nil {
		return
	}
	c.over.Store(true)
	if ctx.Err() == nil {
		c.ended.Store(true)
	}
}

// admit counts a call until it ends, or refuses it. It is a tap of gRPC, which calls it with the headers of a call.
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

// follow has the identity of an open call checked again, leave ends that.
func (c *calls) follow(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[x] = struct{}{}
}

func (c *calls) leave(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.revoked { // else revoke drops it
		delete(c.open, x)
	}
}

// watch ends calls whose identity is revoked, until ctx is done.
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

// revoke ends open calls whose caller is no longer known, has another role or an expired certificate, and closes the
// connections of calls that go on although it has ended them before.
func (c *calls) revoke() {
	open, revoked := c.followed()
	for _, x := range revoked {
		if x.from != nil && !x.over.Load() {
			x.from.Cut()
		}
	}
	for _, x := range open { // without mu, which every new call takes
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

// followed returns the open calls whose identities are checked, and forgets those that it has revoked.
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

// mark notes that an open call is revoked; false where it has ended.
func (c *calls) mark(x *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, x.revoked = c.open[x]
	return x.revoked
}

// errConnectionClosed is for calls of a connection that is closed, which no client receives.
var errConnectionClosed = status.Error(codes.Unavailable, "the connection is closed")

// counted notes the end of a call, and whether the server ended it or the client gave it up.
type counted func(byServer bool)

// count counts a call until release is called. With an error it reports whether the identity has given up too many
// calls.
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

// countIdentified is count for a call of an identity. The caller holds mu.
func (c *calls) countIdentified(who auth.Identity, from *connection) (release counted, gaveUp bool, err error) {
	key := who.Name
	if key == "" && from != nil { // all callers are that
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

// healthChecks answers health checks. It has no Watch, which would hold a call for as long as the client likes: clients
// that balance load take UNIMPLEMENTED for healthy, as the protocol of health checks says.
type healthChecks struct{ *health.Server }

func (healthChecks) Watch(*grpc_health_v1.HealthCheckRequest,
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "health is not watched: call Check")
}
