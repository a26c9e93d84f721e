package torture_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
)

// room limits the size of the daemon's files, in bytes; unix.RLIM_INFINITY leaves the disk as the limit.
func (v *victim) room(bytes uint64) {
	v.t.Helper()
	if err := unix.Prlimit(v.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY},
		nil); err != nil {
		v.t.Fatal(err)
	}
}

// When the disk is full, readers get the cause in time. With free space and a restart the run continues with the same
// steps.
func TestDiskFull_RunContinuesAfterSpaceIsFreed(t *testing.T) {
	c := daemontest.Settings(t, "")
	c.Stream.Listen, c.Flight.Listen = natstest.FreeAddress(t), natstest.FreeAddress(t)
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Steps.Rows, c.Serve.CheckpointSteps, c.Serve.Ahead, c.Serve.StallTimeout = 12, 5, 4, 2*time.Second
	v := newVictim(t, c)
	v.start()
	if err := publishTokens(v, v.nats(), "torture", 600, 7); err != nil {
		t.Fatal(err)
	}
	v.do("stats", map[string]any{}) // the daemon serves
	client, err := flightclient.Open(v.uri(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	n := 0
	err = client.Read(v.ctx, api.Ticket{}, func(flightclient.Batch) error {
		if n++; n == 5 {
			v.room(1)
		}
		return nil
	})
	for again := 0; flightclient.Reason(err) != "STORAGE_DOWN"; again++ { // the failed write is reported within a second
		if again == 3 || status.Code(errors.Unwrap(err)) != codes.Unavailable || flightclient.Reason(err) == "" {
			t.Fatalf("behind %d steps the reader got %v", n, err)
		}
		err = client.Read(v.ctx, api.Ticket{Step: uint64(n)}, func(flightclient.Batch) error { n++; return nil })
	}
	v.kill()

	v.start()
	v.do("seal", map[string]any{})
	got, err := v.rank(api.Ticket{World: 1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	v.kill()
	v.c.Run = "calm"
	v.start()
	v.do("seal", map[string]any{})
	want, err := v.rank(api.Ticket{World: 1}, 7)
	if err != nil || len(want) <= n {
		t.Fatalf("%d steps of the undisturbed run: %v", len(want), err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d steps, the undisturbed run has %d, or some differ", len(got), len(want))
	}
}
