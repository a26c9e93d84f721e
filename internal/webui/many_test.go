package webui_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/browsertest"
)

// 200 pages are open at the same time, some of them in a browser. All receive updates in order, with little memory.
func TestPage_ManyOpenPagesUseLittleMemory(t *testing.T) {
	const pages, tabs, rounds = 200, 3, 8
	browser := browsertest.Chromium(t)
	f := newFake()
	f.set(func(f *fake) { f.change = manyRanks })
	s := serve(t, f)
	shown := []*browsertest.Tab{}
	for range tabs {
		p := browsertest.Open(t, browser, s.URL, browsertest.Usual)
		ready(p)
		shown = append(shown, p)
	}
	before, cpu := heap(), used(t)
	began := time.Now()
	nexts := make([]func() (string, []byte), pages)
	for i := range nexts {
		_, nexts[i] = listen(t, s.URL, "")
	}
	got := make([][]uint64, pages)
	var wg sync.WaitGroup
	for i, next := range nexts {
		wg.Go(func() {
			for range rounds {
				name, data := next()
				var status api.Status
				if err := json.Unmarshal(data, &status); err != nil || name != "status" {
					got[i] = append(got[i], 0)
					t.Errorf("page %d: %v: %s %.200s", i, err, name, data)
					return
				}
				got[i] = append(got[i], status.Planned)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	sent := map[uint64]bool{}
	for i, planned := range got {
		for k, n := range planned {
			sent[n] = true
			if k > 0 && n <= planned[k-1] {
				t.Errorf("page %d went back: %v", i, planned)
			}
		}
	}
	missed := 0
	for _, planned := range got {
		for n := planned[0]; n < planned[len(planned)-1]; n++ {
			if sent[n] && !slices.Contains(planned, n) {
				missed++
			}
		}
	}
	for _, p := range shown {
		p.Says("#health", "Waiting")
		p.Until(`document.documentElement.dataset.updates > 3`)
	}
	t.Logf("%d of %d updates missed: a page that is not scheduled for a second gets the newest alone", missed,
		pages*rounds)
	t.Logf("%d pages and %d tabs for %s: %.1f %% of a processor with the readers in this process, %.1f MiB of heap "+
		"more, %d goroutines", pages, tabs, took.Round(time.Second),
		100*float64(used(t)-cpu)/float64(took), float64(heap()-before)/(1<<20), runtime.NumGoroutine())
	runtime.KeepAlive(nexts)
	if grown := int64(heap()) - int64(before); grown > 64<<20 {
		t.Errorf("200 pages hold %d bytes", grown)
	}
}

// heap returns the heap memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// used returns the CPU time that this process has used.
func used(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
