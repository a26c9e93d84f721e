package endtoend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/natstest"
	"loaderd/internal/reader"
)

// held is what a process holds.
type held struct {
	goroutines, files int
	heap              int64 // bytes that are in use after a collection
}

func holds(t *testing.T) held {
	t.Helper()
	runtime.GC()
	runtime.GC() // what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return held{runtime.NumGoroutine(), len(files), int64(m.HeapAlloc)}
}

// leakAllowed is what may be held beyond the measure before: nothing but noise. One leaked stream window of every visit
// would be a hundred times as much.
var leakAllowed = held{5, 3, 8 << 20}

// A daemon holds no more after 1,000 readers that came, left amid a batch or a wait, were cut off, or spoke nonsense.
// errGone ends a client in the middle of a stream.
var errGone = errors.New("gone")

func TestReadersThatComeAndGoLeaveNothing(t *testing.T) {
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
		case 1: // leaves at any moment of a wait for a step that does not come
			ticket.Step, ticket.World = d.Run().Info().Planned, 2
			defer time.AfterFunc(time.Duration(i%7)*time.Millisecond, cancel).Stop()
		case 2:
			uri = linked
		case 3:
			c, err := net.Dial("tcp", uri[len("grpc://"):])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x7f")[:6*(i%5)]); err != nil {
				t.Fatal(err)
			}
			return
		}
		client, err := reader.Open(uri, reader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		err = client.Read(ctx, ticket, func(reader.Batch) error {
			if after--; after > 0 {
				return nil
			}
			if i%4 == 2 {
				link.Cut() // the next batch does not come
				return nil
			}
			return errGone
		})
		link.Mend()
		if i%4 == 0 && !errors.Is(err, errGone) || err == nil {
			t.Fatalf("visit %d to a run of %d steps: %v", i, steps, err)
		}
	}
	for i := range 200 { // what a daemon grows to at first
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
