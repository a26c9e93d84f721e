package main

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"loaderd/bench/record"
)

// TestRun: every number of workers is compared with one, for everything that is measured.
func TestRun(t *testing.T) {
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

// TestLocksAreSeen: what workers wait for one another is counted as blocked, and all bytes are.
func TestLocksAreSeen(t *testing.T) {
	var m sync.Mutex
	const goroutines = 100 // the runtime measures some of them
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
