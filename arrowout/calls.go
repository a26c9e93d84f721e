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
	// maxUnidentifiedCalls bounds the open calls whose callers have no identity, health checks included.
	// maxUnidentifiedPerConnection bounds those of one connection.
	maxUnidentifiedCalls         = 256
	maxUnidentifiedPerConnection = 16
	// maxActionsPerIdentity is how many calls an identity may have open in addition to its streams.
	maxActionsPerIdentity = 256
	// identityResetsPerSecond is how many calls per second an identity may cancel beyond a burst, over all its
	// connections. If callers have no identities, the limit applies per host. The burst is about twice the number of
	// calls that an identity may have open by default. So all processes of a cluster may cancel all their calls at the
	// same time.
	identityResetsPerSecond = 100
	identityResetsBurst     = 8192
	// requestTimeout is the time limit for a client to send the message of a call.
	requestTimeout = 10 * time.Second
	// revokeInterval is how often the identities of open calls are checked.
	revokeInterval = 5 * time.Second
)

// callRegistry bounds open calls from the arrival of their headers. gRPC allocates the metadata, a goroutine and a
// window for a call before any interceptor runs.
type callRegistry struct {
	interceptor           *interceptor
	maxStreamsPerIdentity func() int // maximum number of open streams per identity
	requestTimeout        time.Duration

	mu           sync.Mutex
	unidentified int
	byConnection map[*connection]int // calls without identity
	byIdentity   map[string]*identityCalls
	openCalls    map[*call]struct{} // calls with an identity
}

func newCallRegistry(g *interceptor, streamsPerIdentity func() int) *callRegistry {
	return &callRegistry{interceptor: g, maxStreamsPerIdentity: streamsPerIdentity, requestTimeout: requestTimeout,
		byConnection: map[*connection]int{},
		byIdentity:   map[string]*identityCalls{}, openCalls: map[*call]struct{}{}}
}

// identityCalls has the open calls of one identity.
type identityCalls struct {
	open   int
	resets *rate.Limiter // calls that it may cancel
}

// call is an open call.
type call struct {
	identity      auth.Identity
	identityErr   error // why it has no identity; nil if it has one
	requestTimer  *time.Timer
	endedByServer atomic.Bool // by the server, not cancelled by the client
	handlerDone   atomic.Bool // its handler has returned

	ctx        context.Context
	method     string
	connection *connection
	cancel     context.CancelCauseFunc
	revoked    bool // guarded by calls.mu
}

// callKey is the context key of the call.
type callKey struct{}

func callFromContext(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// markReceived records that the message of the call has arrived.
func (c *call) markReceived() {
	if c != nil {
		c.requestTimer.Stop()
	}
}

// markEnded records that the handler of the call returns. The server counts as the one that ended the call unless the
// client cancelled it earlier.
func (c *call) markEnded(ctx context.Context) {
	if c == nil {
		return
	}
	c.handlerDone.Store(true)
	if ctx.Err() == nil {
		c.endedByServer.Store(true)
	}
}

// admit counts a call until it ends, or refuses it. It is a gRPC tap handle, which gRPC calls with the headers of a
// call.
func (c *callRegistry) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	x, from := &call{}, connectionFromContext(ctx)
	if from != nil && !from.chargeReset() {
		return nil, errConnectionClosed
	}
	x.identity, x.identityErr = c.interceptor.identify(ctx, info.FullMethodName, c.interceptor.gate.Identify)
	identified := x.identityErr == nil && !isHealthCheck(info.FullMethodName)
	release, few, err := c.countCall(x.identity, identified, from)
	if err != nil {
		if from != nil {
			from.recordCancel(few)
		}
		return nil, c.interceptor.recordError(ctx, info.FullMethodName, err).Err()
	}
	done := func() {}
	switch {
	case from == nil:
	case identified:
		done = from.BeginIdentified()
	case isHealthCheck(info.FullMethodName):
		from.MarkServed()
	}
	x.method, x.connection = info.FullMethodName, from
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(ctx, callKey{}, x))
	x.requestTimer = time.AfterFunc(c.requestTimeout, func() { x.cancel(nil) })
	if identified {
		c.trackCall(x)
	}
	context.AfterFunc(x.ctx, func() { // gRPC ends the context of every call
		x.requestTimer.Stop()
		x.cancel(nil)
		done()
		byServer := x.endedByServer.Load()
		release(byServer)
		c.untrackCall(x)
		switch {
		case from == nil:
		case byServer:
			from.refundReset()
		default:
			from.recordCancel(false)
		}
	})
	return x.ctx, nil
}

// trackCall adds an open call to those whose identity is checked periodically; leave removes it.
func (c *callRegistry) trackCall(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.openCalls[x] = struct{}{}
}

func (c *callRegistry) untrackCall(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.revoked { // otherwise followed removes it
		delete(c.openCalls, x)
	}
}

// watchIdentities ends calls with a revoked identity, until ctx is done.
func (c *callRegistry) watchIdentities(ctx context.Context) {
	tick := time.NewTicker(revokeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.revokeCalls()
		}
	}
}

// revokeCalls ends open calls whose caller is no longer authorized, has another role or has an expired certificate. It
// closes the connection of a call that an earlier revoke ended but whose handler has not returned.
func (c *callRegistry) revokeCalls() {
	open, revoked := c.trackedCalls()
	for _, x := range revoked {
		if x.connection != nil && !x.handlerDone.Load() {
			x.connection.Cut()
		}
	}
	for _, x := range open { // without mu, which every new call needs
		who, err := c.interceptor.identify(x.ctx, x.method, c.interceptor.gate.IdentifyOpenCall)
		if err == nil && who.Name == x.identity.Name && who.Role == x.identity.Role {
			continue
		}
		if err == nil {
			err = &fault.Error{Reason: fault.InvalidToken, Message: "the identity of the call has changed", Advice: "call again"}
		}
		if c.markRevoked(x) {
			x.cancel(err)
		}
	}
}

// trackedCalls returns the open calls whose identities are checked. It also returns the revoked calls and removes them.
func (c *callRegistry) trackedCalls() (open, revoked []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open = make([]*call, 0, len(c.openCalls))
	for x := range c.openCalls {
		if x.revoked {
			delete(c.openCalls, x)
			revoked = append(revoked, x)
		} else {
			open = append(open, x)
		}
	}
	return open, revoked
}

// markRevoked marks an open call as revoked. It returns false if the call has ended.
func (c *callRegistry) markRevoked(x *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, x.revoked = c.openCalls[x]
	return x.revoked
}

// errConnectionClosed is the error for calls of a closed connection. No client receives it.
var errConnectionClosed = status.Error(codes.Unavailable, "the connection is closed")

// releaseFunc records the end of a call, and whether the server ended it or the client cancelled it.
type releaseFunc func(byServer bool)

// countCall counts a call until release is called. With an error, recordCancel reports whether the identity has
// cancelled too many calls.
func (c *callRegistry) countCall(who auth.Identity, identified bool,
	from *connection) (release releaseFunc, gaveUp bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identified {
		return c.countIdentified(who, from)
	}
	if c.unidentified >= maxUnidentifiedCalls {
		return nil, false, refusal.Limited("open calls without an identity", maxUnidentifiedCalls)
	}
	if c.byConnection[from] >= maxUnidentifiedPerConnection {
		return nil, false, refusal.Limited("open calls without an identity of a connection", maxUnidentifiedPerConnection)
	}
	c.unidentified++
	c.byConnection[from]++
	return func(bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unidentified--
		tally.Decrement(c.byConnection, from)
	}, false, nil
}

// countIdentified is count for a call with an identity. The caller holds mu.
func (c *callRegistry) countIdentified(who auth.Identity,
	from *connection) (release releaseFunc, gaveUp bool, err error) {
	key := who.Name
	if key == "" && from != nil { // all callers are anonymous
		key = from.Host().String()
	}
	of := c.byIdentity[key]
	if of == nil {
		of = &identityCalls{resets: rate.NewLimiter(identityResetsPerSecond, identityResetsBurst)}
		c.byIdentity[key] = of
	}
	if most := c.maxStreamsPerIdentity() + maxActionsPerIdentity; of.open >= most {
		return nil, false, refusal.Limited(fmt.Sprintf("open calls of identity %s", who), most)
	}
	if of.resets.Tokens() < 1 {
		return nil, true, refusal.Limited(fmt.Sprintf("cancelled calls per second of identity %s", who),
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
			delete(c.byIdentity, key)
		}
	}, false, nil
}

// isHealthCheck reports whether a method is a health check, which needs no identity: load balancers have none.
func isHealthCheck(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// healthChecks implements health checks without Watch, which would keep a call open for as long as the client wants.
// According to the health checking protocol, load-balancing clients treat UNIMPLEMENTED as healthy.
type healthChecks struct{ *health.Server }

func (healthChecks) Watch(*grpc_health_v1.HealthCheckRequest,
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "Watch is not supported: call Check")
}
