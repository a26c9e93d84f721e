package arrowout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"loaderd/internal/access"
)

const (
	// maxCalls bounds the open calls of a connection, and the goroutines that serve them.
	maxCalls = 256
	// maxHeaders bounds the metadata of a call, by the count of HTTP/2: 32 bytes per field beside its name and value.
	maxHeaders = 8 << 10
	// unidentifiedCalls bounds the open calls whose callers have no identity, health checks among them; unidentifiedOfOne those of
	// a connection.
	unidentifiedCalls = 256
	unidentifiedOfOne = 16
	// actionsOfOne is how many calls an identity may have open beside its streams.
	actionsOfOne = 256
	// requestWithin is how long a client may take to send the message of a call.
	requestWithin = 10 * time.Second
)

// calls bounds open calls from the moment that their headers have arrived: gRPC takes memory for the metadata, a goroutine and a
// window for a call, before any interceptor runs.
type calls struct {
	guard         *guard
	limits        *limits
	requestWithin time.Duration

	mu           sync.Mutex
	unidentified int
	ofConnection map[*connection]int // unidentified
	ofIdentity   map[string]int
}

func newCalls(g *guard, l *limits) *calls {
	return &calls{guard: g, limits: l, requestWithin: requestWithin, ofConnection: map[*connection]int{}, ofIdentity: map[string]int{}}
}

// call is an open call.
type call struct {
	who     access.Identity
	unknown error // why it has no identity
	request *time.Timer
	ended   atomic.Bool // by the server
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

// end notes that the server ends the call, if the client has not given it up before.
func (c *call) end(ctx context.Context) {
	if c != nil && ctx.Err() == nil {
		c.ended.Store(true)
	}
}

// admit counts a call until it ends, or refuses it. It is a tap of gRPC, which calls it with the headers of a call.
func (c *calls) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	x, from := &call{}, connectionOf(ctx)
	x.who, x.unknown = c.guard.identify(ctx, info.FullMethodName)
	identified := x.unknown == nil && !isHealth(info.FullMethodName)
	release, err := c.count(x.who, identified, from)
	if err != nil {
		if from != nil {
			from.gaveUp()
		}
		return nil, c.guard.refuse(ctx, info.FullMethodName, err).Err()
	}
	done := func() {}
	if identified && from != nil {
		done = from.Identified()
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, callKey{}, x))
	x.request = time.AfterFunc(c.requestWithin, cancel)
	context.AfterFunc(ctx, func() { // gRPC ends the context of every call
		x.request.Stop()
		cancel()
		done()
		release()
		if !x.ended.Load() && from != nil {
			from.gaveUp()
		}
	})
	return ctx, nil
}

// count counts a call until release is called.
func (c *calls) count(who access.Identity, identified bool, from *connection) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if identified {
		if most := c.limits.streamsOfOne() + actionsOfOne; c.ofIdentity[who.Name] >= most {
			return nil, limited(fmt.Sprintf("open calls of identity %s", who), most)
		}
		c.ofIdentity[who.Name]++
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			decrement(c.ofIdentity, who.Name)
		}, nil
	}
	if c.unidentified >= unidentifiedCalls {
		return nil, limited("open calls without an identity", unidentifiedCalls)
	}
	if c.ofConnection[from] >= unidentifiedOfOne {
		return nil, limited("open calls without an identity of a connection", unidentifiedOfOne)
	}
	c.unidentified++
	c.ofConnection[from]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unidentified--
		decrement(c.ofConnection, from)
	}, nil
}

// isHealth reports whether a method is a health check, which needs no identity: load balancers have none.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// healthChecks answers health checks. It has no Watch, which would hold a call for as long as the client likes: clients that
// balance load take UNIMPLEMENTED for healthy, as the protocol of health checks says.
type healthChecks struct{ *health.Server }

func (healthChecks) Watch(*grpc_health_v1.HealthCheckRequest, grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "health is not watched: call Check")
}
