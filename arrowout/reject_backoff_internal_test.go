package arrowout

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A host that is refused repeatedly waits for the answer. Other hosts do not wait, nor does a host with few refusals.
func TestRejectBackoff_DelaysRepeatedlyRefusedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rejectBackoff{}
		took := func(address string) time.Duration {
			began := time.Now()
			r.delay(t.Context(), address)
			return time.Since(began)
		}
		for i := range rejectsBurst {
			if d := took(fmt.Sprintf("10.0.0.1:%d", 1000+i)); d != 0 {
				t.Fatalf("refusal %d waits %v", i, d)
			}
		}
		if d := took("10.0.0.1:7"); d != rejectDelay {
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
		for range 2 * rejectsBurst {
			r.delay(gone, "10.0.0.3:1")
		}
		if r.delayed != 0 {
			t.Errorf("%d wait although their callers have gone", r.delayed)
		}
		for range rejectsBurst + maxDelayedRejects {
			r.countReject("10.0.0.4:1")
		}
		if d := r.countReject("10.0.0.4:1"); d != 0 || r.delayed != maxDelayedRejects {
			t.Errorf("%d wait, and one more %v", r.delayed, d)
		}
		for i := range 3 * maxRejectedHosts {
			r.countReject(fmt.Sprintf("host-%d:1", i))
		}
		if len(r.byHost) > maxRejectedHosts {
			t.Errorf("%d hosts are remembered", len(r.byHost))
		}
	})
}
