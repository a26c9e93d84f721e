package arrowout_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"

	"loaderd/arrowout"
	"loaderd/internal/auth"
	"loaderd/internal/testscale"
)

// site is a server that a well-behaved reader and attackers use, and what the attackers do.
type site struct {
	server *arrowout.Server
	good   string // token of the well-behaved reader
	size   int    // bytes per batch
	floods []aFlood
}

type aFlood struct {
	name  string
	start func(testing.TB) (end func())
}

// flooded starts a server with batches of 1 MiB.
func flooded(t testing.TB) site {
	run := newBenchRun(1 << 20)
	file := filepath.Join(t.TempDir(), "identities.json")
	good, bad := let(t, file, auth.Identity{Name: "good", Role: auth.Read}),
		let(t, file, auth.Identity{Name: "bad", Role: auth.Operate})
	s := serve(t, run, func(c *arrowout.Config) { c.Identities, c.MaxStreamsPerIdentity = file, 1<<14 })
	calls := func(token, name, body string) func(testing.TB) func() {
		return func(t testing.TB) func() {
			c, done, ended := dial(t, s), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for {
					select {
					case <-done:
						return
					default:
						stream, err := c.DoAction(withToken(token), &flight.Action{Type: name, Body: []byte(body)})
						_ = received(stream, &flight.Result{}, err)
					}
				}
			}()
			return func() { close(done); <-ended }
		}
	}
	never := func(of, name string, window uint32) func(testing.TB) func() {
		return func(t testing.TB) func() {
			var all []*flood
			for i := range 2 {
				all = append(all, openFloods(t, s, testscale.Of(200, 1000), window, of,
					fmt.Sprintf(`{"job":"%s/%d","world":4096,"rank":#}`, name, i))...)
			}
			settle(run.fakeRun)
			return func() {
				for _, f := range all {
					f.close()
				}
			}
		}
	}
	// again attacks over consecutive connections, each until the server closes it or attack returns false.
	again := func(attack func(*attacker) bool) func(testing.TB) func() {
		return func(t testing.TB) func() {
			done, ended := make(chan struct{}), make(chan struct{})
			dialer := net.Dialer{}
			if runtime.GOOS == "linux" { // a flooding host may be refused for a while; other systems only have 127.0.0.1
				dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}
			}
			go func() {
				defer close(ended)
				var open []net.Conn
				for {
					select {
					case <-done:
						for _, c := range open {
							_ = c.Close()
						}
						return
					default:
					}
					conn, err := dialer.Dial("tcp", s.Addr().String())
					if err != nil {
						continue // it is refused
					}
					if open = append(open, conn); len(open) > 2000 {
						_ = open[0].Close()
						open = open[1:]
					}
					a := attackOver(t, conn)
					for a.served() && attack(a) {
						select {
						case <-done:
							_ = conn.Close()
						default:
						}
					}
				}
			}()
			return func() { close(done); <-ended }
		}
	}
	resets := func(a *attacker) bool {
		for range 100 {
			a.must(a.framer.WriteRSTStream(a.call(pathOfDoGet, "authorization", "Bearer "+bad), http2.ErrCodeCancel))
		}
		return true
	}
	headers := func(a *attacker) bool {
		a.call(pathOfCheck, "a", strings.Repeat("x", 1<<20))
		return a.served()
	}
	unfinished := func(a *attacker) bool {
		for range 100 {
			a.call(pathOfSchema)
		}
		return a.served() && false
	}
	return site{s, good, run.tokens * 6, []aFlood{
		{"resets", again(resets)}, {"metadata", again(headers)}, {"calls-without-a-message", again(unfinished)},
		{"connections-that-ping", again(func(*attacker) bool { return false })},
		{"readers-that-never-read", never(bad, "bad", 0)}, {"of-its-own-identity", never(good, "good", 0)},
		{"readers-that-stop", never(bad, "bad", 5<<20)}, {"stopped-of-its-own-identity", never(good, "good", 5<<20)},
		{"calls-without-a-token", calls("", "info", "")}, {"commits", calls(bad, "commit", `{"step":1}`)},
		{"searches", calls(bad, "find", `{"id":"two"}`)},
	}}
}

// settle waits until the server has sent a flood of readers all that their windows accept.
func settle(run *fakeRun) {
	for before := int64(-1); before != run.assembled.Load(); time.Sleep(200 * time.Millisecond) {
		before = run.assembled.Load()
	}
}

// A reader makes progress while other clients attack the server.
func TestFloods_ReaderMakesProgress(t *testing.T) {
	batches := testscale.Of(20, 200)
	x := flooded(t)
	for _, flood := range x.floods {
		t.Run(flood.name, func(t *testing.T) {
			alone := readFor(t, x.server, x.good, batches)
			end := flood.start(t)
			beside := readFor(t, x.server, x.good, batches)
			end()
			t.Logf("%d batches at %.2f of the speed that it has alone", batches, float64(alone)/float64(beside))
		})
	}
}

// BenchmarkGoodReader reports MB/s of a reader while other clients attack the server. of_alone is the fraction of its
// throughput without attackers. MiB is the memory of the server and all clients. The floods share the processors with
// the reader, so its share under continuous calls depends on their number.
func BenchmarkGoodReader(b *testing.B) {
	x := flooded(b)
	for _, flood := range x.floods {
		b.Run(flood.name, func(b *testing.B) {
			var alone, beside time.Duration
			var memory uint64 // of server and clients, at most
			b.SetBytes(int64(x.size))
			b.ResetTimer()
			for range rounds {
				b.StopTimer()
				alone += readFor(b, x.server, x.good, b.N/rounds)
				end := flood.start(b)
				b.StartTimer()
				beside += readFor(b, x.server, x.good, b.N/rounds)
				b.StopTimer()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				memory = max(memory, m.HeapInuse+m.StackInuse)
				end()
			}
			if b.N > 1 {
				b.ReportMetric(float64(alone)/float64(beside), "of_alone")
				b.ReportMetric(float64(memory>>20), "MiB")
			}
		})
	}
}

// rounds is how often the two measurements alternate.
const rounds = 5

// readFor reads that many batches, after as many for warm-up, and returns how long the measured ones took.
func readFor(b testing.TB, s *arrowout.Server, token string, batches int) time.Duration {
	c, err := flight.NewClientWithMiddleware(s.Addr().String(), nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(discard{encoding.GetCodecV2(proto.Name)})),
		grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(16<<20))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(withToken(token))
	defer cancel()
	stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte("{}")})
	if err != nil {
		b.Fatal(err)
	}
	receive := func() {
		for range batches + 1 {
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	}
	receive()
	start := time.Now()
	receive()
	return time.Since(start)
}
