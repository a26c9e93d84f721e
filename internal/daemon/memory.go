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
	// gcPercent is the daemon's GOGC, in percent. Most of its heap are caches that stay allocated. With the default of
	// 100 the process would grow to twice their limits. It is larger, at most maxGCPercent, while less than gcHeadroom
	// bytes could be allocated between two collections: those of a small heap would take much of the CPU time.
	gcPercent    = 50
	maxGCPercent = 400
	gcHeadroom   = 32 << 20
	// baseMemory is what a lightly used daemon needs in addition to the memory that is configured in bytes: the message
	// blocks of the NATS server, network buffer pools, and the planner. Unused cache capacity serves as the garbage
	// collector's headroom.
	baseMemory = 64 << 20
	// memoryLimitInterval is the interval at which the limit is adapted to the memory in use.
	memoryLimitInterval = 250 * time.Millisecond
	// idleInterval is the time without a collection after which a daemon counts as idle.
	idleInterval = time.Second
	// memoryReturnInterval is the minimum interval at which an idle daemon returns memory to the system.
	memoryReturnInterval = time.Minute
)

// limitMemory sets the garbage collector's soft limit to the configured memory, and returns a function that removes
// it. The limit grows with the live heap: many readers, a large planner or large documents use more memory, but never
// cause continuous collection. GOGC and GOMEMLIMIT in the environment take precedence.
func limitMemory(c config.Config) (end func()) {
	percent, fixedPercent := gcPercent, os.Getenv("GOGC") != ""
	if os.Getenv("GOMEMLIMIT") != "" {
		if !fixedPercent {
			debug.SetGCPercent(percent)
		}
		return func() {}
	}
	if !fixedPercent {
		percent = percentFor(0)
		debug.SetGCPercent(percent)
	}
	least := baseMemory + c.Serve.CacheBytes + c.Stream.BufferBytes
	debug.SetMemoryLimit(least)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var idle idleDetector
		tick, idleTick := time.NewTicker(memoryLimitInterval), time.NewTicker(idleInterval)
		defer tick.Stop()
		defer idleTick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				live := int64(runtimeMetric("/gc/heap/live:bytes"))
				debug.SetMemoryLimit(memoryLimit(least, live))
				if next := percentFor(live); !fixedPercent && next != percent {
					percent = next
					debug.SetGCPercent(percent)
				}
			case <-idleTick.C:
				if idle.canReturnMemory(runtimeMetric("/gc/cycles/total:gc-cycles"), time.Now()) {
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

// memoryLimit returns the soft limit: at least least, and at least a third more than the live heap.
func memoryLimit(least, live int64) int64 { return max(least, live+live/3) }

// percentFor returns GOGC for a live heap: gcPercent, doubled while the headroom is smaller than gcHeadroom.
func percentFor(live int64) int {
	percent := gcPercent
	for percent < maxGCPercent && live*int64(percent)/100 < gcHeadroom {
		percent *= 2
	}
	return percent
}

// idleDetector detects that a daemon is almost idle: the garbage collector has not run since the last check. It will
// then not run for long, and memory used by the start or by a burst stays allocated until it is returned to the system.
type idleDetector struct {
	cycles     uint64
	lastReturn time.Time
}

// canReturnMemory reports whether memory should be returned to the system. cycles is the number of collections so far.
func (i *idleDetector) canReturnMemory(cycles uint64, now time.Time) bool {
	idle := cycles == i.cycles
	i.cycles = cycles
	if !idle || now.Sub(i.lastReturn) < memoryReturnInterval {
		return false
	}
	i.lastReturn = now
	return true
}

// runtimeMetric returns a metric of the Go runtime.
func runtimeMetric(name string) uint64 {
	sample := []runtimemetrics.Sample{{Name: name}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
