package arrowout

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A host that is refused repeatedly waits for the answer. Other hosts do not wait, nor does a host with few refusals.
func TestRefusalsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusals{}
		took := func(address string) time.Duration {
			began := time.Now()
			r.wait(t.Context(), address)
			return time.Since(began)
		}
		for i := range refusedBurst {
			if d := took(fmt.Sprintf("10.0.0.1:%d", 1000+i)); d != 0 {
				t.Fatalf("refusal %d waits %v", i, d)
			}
		}
		if d := took("10.0.0.1:7"); d != refusalWait {
			t.Errorf("one more waits %v", d)
		}
		if d := took("10.0.0.2:7"); d != 0 {
			t.Errorf("another host waits %v", d)
		}
		time.Sleep(time.Minute)
		if d := took("10.0.0.1:7"); d != 0 {
			t.Errorf("a minute later it waits %v", d)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 * refusedBurst {
			r.wait(gone, "10.0.0.3:1")
		}
		if r.waiting != 0 {
			t.Errorf("%d wait although their callers have gone", r.waiting)
		}
		for range refusedBurst + refusalsWaiting {
			r.begin("10.0.0.4:1")
		}
		if d := r.begin("10.0.0.4:1"); d != 0 || r.waiting != refusalsWaiting {
			t.Errorf("%d wait, and one more %v", r.waiting, d)
		}
		for i := range 3 * refusedHosts {
			r.begin(fmt.Sprintf("host-%d:1", i))
		}
		if len(r.of) > refusedHosts {
			t.Errorf("%d hosts are remembered", len(r.of))
		}
	})
}
