package daemon

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"loaderd/internal/config"
)

const (
	// heapShare is GOGC of a daemon, in percent: most of its heap are caches that stay. Without it the process grows to twice their bounds.
	heapShare = 50
	// baseMemory is what a daemon needs beside what is configured in bytes, when little is asked of it: the server's blocks of messages, pools of the
	// network, the planner, and room for the collector to work without hurry.
	baseMemory = 224 << 20
	// memoryLooks is how often the limit is fitted to what is in use.
	memoryLooks = time.Second
)

// boundMemory asks the collector to keep the process within what is configured, and returns what ends that. It is a soft limit, and follows what is in use
// where that is more: many readers, a large planner or large documents cost memory, and never a collector that does not come to an end. GOGC and GOMEMLIMIT in the
// environment go before it.
func boundMemory(c config.Config) (end func()) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapShare)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	least := baseMemory + c.Serve.CacheBytes + c.Stream.BufferBytes
	debug.SetMemoryLimit(least)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(memoryLooks)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				debug.SetMemoryLimit(memoryLimit(least, liveBytes()))
			}
		}
	}()
	return func() {
		cancel()
		<-done
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// memoryLimit leaves the collector a quarter of what is in use as room at least, where least is not more than that.
func memoryLimit(least, live int64) int64 { return max(least, live+live/4) }

// liveBytes is what the last collection found in use, in bytes.
func liveBytes() int64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
