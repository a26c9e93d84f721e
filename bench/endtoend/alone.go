package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"loaderd/tokenizer"
)

// alone tokenizes the published documents on as many cores as the daemon has, and returns the bytes of text per
// second. The time includes loading the tokenizer, as in the daemon.
func alone(texts [][]byte, documents int, name string) (bytesPerSecond float64, err error) {
	began := time.Now()
	model, err := tokenizer.Load(name, tokenizer.Options{})
	if err != nil {
		return 0, err
	}
	var next, size atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			encoder := model.NewEncoder()
			var ids []int32
			mine := 0
			for i := next.Add(1) - 1; i < int64(documents); i = next.Add(1) - 1 {
				text := texts[int(i)%len(texts)]
				ids = encoder.Encode(ids[:0], text)
				mine += len(text)
			}
			size.Add(int64(mine))
		})
	}
	wg.Wait()
	return float64(size.Load()) / time.Since(began).Seconds(), nil
}
