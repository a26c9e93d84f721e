package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"sync"
	"time"

	"loaderd/bench/record"
)

// spent is the cost of some work.
type spent struct {
	wall, cpu time.Duration
	blocked   time.Duration // by all goroutines together, waiting for mutexes and runtime locks
	bytes     int64
}

// together runs f in n concurrent goroutines and measures all of them. f returns the bytes that it has processed.
func together(n int, f func(worker int) (int64, error)) (spent, error) {
	sizes, errs := make([]int64, n), make([]error, n)
	runtime.GC()
	began, cpu, blocked := time.Now(), record.ProcessorTime(), lockWaits()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { sizes[i], errs[i] = f(i) })
	}
	wg.Wait()
	s := spent{wall: time.Since(began), cpu: record.ProcessorTime() - cpu, blocked: lockWaits() - blocked}
	for _, size := range sizes {
		s.bytes += size
	}
	return s, errors.Join(errs...)
}

// lockWaits returns the runtime's estimate from the waits of every eighth goroutine.
func lockWaits() time.Duration {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}

// profiling records every wait for a mutex, and blocking events at a rate of one per 10 us blocked, until stop is
// called.
func profiling() (stop func()) {
	before := runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(int(10 * time.Microsecond))
	return func() {
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
	}
}

func writeProfiles(folder string) error {
	for _, name := range []string{"mutex", "block"} {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
