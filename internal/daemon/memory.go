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
	// heapShare is GOGC of a daemon, in percent: most of its heap are caches that stay. Without it the process grows to
	// twice their bounds.
	heapShare = 50
	// baseMemory is what a daemon needs beside what is configured in bytes, when little is asked of it: the server's
	// blocks of messages, pools of the network, the planner. The room that the collector needs to work without hurry is
	// what a cache has that is not full.
	baseMemory = 64 << 20
	// memoryLooks is how often the limit is fitted to what is in use.
	memoryLooks = time.Second
	// givesBack is how often an idle daemon gives memory back at the most.
	givesBack = time.Minute
)

// boundMemory asks the collector to keep the process within what is configured, and returns what ends that. It is a
// soft limit, and follows what is in use where that is more: many readers, a large planner or large documents cost
// memory, and never a collector that does not come to an end. GOGC and GOMEMLIMIT in the environment go before it.
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
		var idle idleness
		tick := time.NewTicker(memoryLooks)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				debug.SetMemoryLimit(memoryLimit(least, int64(measured("/gc/heap/live:bytes"))))
				if idle.look(measured("/gc/cycles/total:gc-cycles"), time.Now()) {
					debug.FreeOSMemory()
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// memoryLimit leaves the collector a third of what is in use as room at least, where least is not more than that.
func memoryLimit(least, live int64) int64 { return max(least, live+live/3) }

// idleness finds out that a daemon has hardly anything to do: the collector has not run since the last look. Then it
// will not run for long, and what a start or a burst took stays where it is, until it is given back.
type idleness struct {
	cycles uint64
	given  time.Time
}

// look reports whether memory is to be given back, where so many collections have been.
func (i *idleness) look(cycles uint64, now time.Time) bool {
	idle := cycles == i.cycles
	i.cycles = cycles
	if !idle || now.Sub(i.given) < givesBack {
		return false
	}
	i.given = now
	return true
}

// measured is one of the runtime's own measures.
func measured(name string) uint64 {
	sample := []runtimemetrics.Sample{{Name: name}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
