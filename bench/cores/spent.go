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

// spent is what some work took.
type spent struct {
	wall, cpu time.Duration
	blocked   time.Duration // of all goroutines together, waiting for mutexes and for locks of the runtime
	bytes     int64
}

// together runs f in so many goroutines at once and measures all of them; f returns the bytes that it was through with.
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

// lockWaits is estimated by the runtime from every eighth goroutine's waits.
func lockWaits() time.Duration {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}

// profiling has every wait for a mutex, and every block of 10 us or more in the mean, written down until the function
// that it returns is called.
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
