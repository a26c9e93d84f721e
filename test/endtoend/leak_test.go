package endtoend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
)

// held is the resources of a process.
type held struct {
	goroutines, files int
	heap              int64 // bytes in use after a collection
}

func holds(t *testing.T) held {
	t.Helper()
	runtime.GC()
	runtime.GC() // frees what finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return held{runtime.NumGoroutine(), len(files), int64(m.HeapAlloc)}
}

// leakAllowed is the permitted growth, which covers noise. One leaked stream window per connection would be a hundred
// times as much.
var leakAllowed = held{5, 3, 8 << 20}

// errGone ends a client in the middle of a stream.
var errGone = errors.New("gone")

// A daemon's resources do not grow over 1,000 readers that read, disconnect in a batch or a wait, are cut off, or send
// invalid requests.
func TestReaders_DisconnectingReadersLeakNothing(t *testing.T) {
	d := daemontest.Start(t, daemontest.Settings(t, ""))
	daemontest.Publish(t, natstest.URL(d.Store()), daemontest.GoSource(t, 60))
	steps := uint64(len(daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 4})))
	link := natstest.NewLink(t, d.FlightURI())
	linked := "grpc://" + link.URL()[len("nats://"):]
	visit := func(i int) {
		uri := d.FlightURI()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ticket := api.Ticket{Columns: daemontest.Columns}
		after := i % 5
		switch i % 4 {
		case 1: // disconnects at any moment of a wait for an unavailable step
			ticket.Step, ticket.World = d.Run().Info().Planned, 2
			defer time.AfterFunc(time.Duration(i%7)*time.Millisecond, cancel).Stop()
		case 2:
			uri = linked
		case 3:
			// From several hosts. A connection above the rate of connections without a request (internal/connlimit) is reset.
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i/4%4))}}
			daemontest.Eventually(t, func() bool {
				c, err := from.DialContext(t.Context(), "tcp", uri[len("grpc://"):])
				if err == nil {
					defer c.Close()
					_, err = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x7f")[:6*(i%5)])
				}
				if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Fatal(err)
				}
				return err == nil
			})
			return
		}
		client, err := flightclient.Open(uri, flightclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		err = client.Read(ctx, ticket, func(flightclient.Batch) error {
			if after--; after > 0 {
				return nil
			}
			if i%4 == 2 {
				link.Cut() // the next batch does not arrive
				return nil
			}
			return errGone
		})
		link.Restore()
		if i%4 == 0 && !errors.Is(err, errGone) || err == nil {
			t.Fatalf("visit %d to a run of %d steps: %v", i, steps, err)
		}
	}
	for i := range 200 { // the daemon's initial growth
		visit(i)
	}
	gone := func() bool { return len(d.Run().Stats().Readers) == 0 }
	daemontest.Eventually(t, gone)
	before := holds(t)
	for i := range 1000 {
		visit(i)
	}
	daemontest.Eventually(t, gone)
	var after held
	daemontest.Eventually(t, func() bool {
		after = holds(t)
		return t.Context().Err() != nil || after.goroutines <= before.goroutines+leakAllowed.goroutines &&
			after.files <= before.files+leakAllowed.files && after.heap <= before.heap+leakAllowed.heap
	})
	t.Logf("before %+v, after %+v", before, after)
}
