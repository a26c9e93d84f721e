package lease

import (
	"testing"
	"time"
)

// A record that does not change times out, also while lagging servers return older records in between. A bucket that
// was created again starts with low revisions.
func TestCandidate_Observe(t *testing.T) {
	now := time.Unix(1e9, 0)
	var c candidate
	see := func(revision uint64) { now = now.Add(pollInterval); c.observe(revision, LeaderInfo{}, now) }
	silent := func() time.Duration { return now.Sub(c.since) }
	see(7)
	if c.refreshed {
		t.Error("what is seen first counts as refreshed")
	}
	see(9)
	if !c.refreshed || silent() != 0 {
		t.Errorf("a newer record has been silent for %v", silent())
	}
	for range 20 { // one of three servers lags
		see(9)
		see(7)
		see(9)
	}
	if silent() < timeout || c.revision != 9 {
		t.Errorf("revision %d has been silent for %v", c.revision, silent())
	}
	for range 40 {
		see(1)
	}
	if c.revision != 1 {
		t.Errorf("a bucket that was created again is not seen: revision %d", c.revision)
	}
}
