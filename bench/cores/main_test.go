package main

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"loaderd/bench/record"
)

// TestRun_ComparesWorkersWithOneWorker checks that every measurement compares each number of workers with one worker.
func TestRun_ComparesWorkersWithOneWorker(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-json", "-bytes", "100000", "-steps", "2", "-repeats", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	var all []result
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3*len(workers) {
		t.Fatalf("%d results, want %d", len(all), 3*len(workers))
	}
	for i, r := range all {
		if r.Workers != workers[i%len(workers)] || r.CPU <= 0 || r.Baseline <= 0 || r.Speed <= 0 || r.Alone <= 0 ||
			r.Blocked < 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestTogether_CountsWaitsForLocks checks that the workers' waits for a lock count as blocked, and that all bytes
// count.
func TestTogether_CountsWaitsForLocks(t *testing.T) {
	var m sync.Mutex
	const goroutines = 100 // the runtime samples some of them
	s, err := together(goroutines, func(int) (int64, error) {
		m.Lock()
		defer m.Unlock()
		for began := record.ProcessorTime(); record.ProcessorTime()-began < time.Millisecond; {
		}
		return 3, nil
	})
	if err != nil || s.bytes != 3*goroutines || s.blocked <= 0 || s.cpu < goroutines*time.Millisecond {
		t.Errorf("%+v: %v", s, err)
	}
}
