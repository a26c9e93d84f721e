package daemon

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/internal/config"
)

// The memory limit equals the configured memory, grows with the live heap beyond it, and is removed with the daemon.
func TestMemoryLimit_FollowsLiveHeap(t *testing.T) {
	for _, x := range []struct{ least, live, want int64 }{{500, 0, 500}, {500, 300, 500}, {500, 800, 1066},
		{500, 4000, 5333}} {
		if got := memoryLimit(x.least, x.live); got != x.want {
			t.Errorf("%d in use of %d: %d, want %d", x.live, x.least, got, x.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "")
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Serve.CacheBytes, c.Stream.BufferBytes = 100<<20, 1<<20
		end := limitMemory(c)
		if got := debug.SetMemoryLimit(-1); got != baseMemory+101<<20 {
			t.Errorf("the limit is %d", got)
		}
		debug.SetMemoryLimit(1 << 20)
		time.Sleep(2 * memoryLimitInterval)
		synctest.Wait()
		if got := debug.SetMemoryLimit(-1); got < baseMemory+101<<20 {
			t.Errorf("a moment later the limit is %d", got)
		}
		end()
	})
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("behind the end the limit is %d", got)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	limitMemory(config.Default())()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("the limit is %d where the environment has one", got)
	}
}

// A small heap has a larger GOGC, so that it is not collected often.
func TestPercentFor_KeepsHeadroom(t *testing.T) {
	for _, x := range []struct {
		live int64
		want int
	}{{0, maxGCPercent}, {8 << 20, 400}, {16 << 20, 200}, {33 << 20, 100}, {64 << 20, gcPercent}, {1 << 40, gcPercent}} {
		if got := percentFor(x.live); got != x.want {
			t.Errorf("%d bytes: %d, want %d", x.live, got, x.want)
		}
	}
}

// Memory is returned if no collection has run between two checks, and not again within a minute.
func TestIdleDetector_ReturnsMemoryOncePerMinute(t *testing.T) {
	now := time.Now()
	var i idleDetector
	for n, x := range []struct {
		after  time.Duration
		cycles uint64
		want   bool
	}{{1, 5, false}, {1, 7, false}, {1, 7, true}, {1, 8, false}, {1, 8, false},
		{memoryReturnInterval / time.Second, 8, true},
		{1, 9, false}} {
		now = now.Add(x.after * time.Second)
		if got := i.canReturnMemory(x.cycles, now); got != x.want {
			t.Errorf("look %d, behind %d collections: %v, want %v", n, x.cycles, got, x.want)
		}
	}
}
