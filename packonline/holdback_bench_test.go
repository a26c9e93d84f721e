package packonline_test

import (
	"fmt"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/packonline"
)

// BenchmarkHoldback packs a million log-normal lengths with and without a holdback. It calls Pending after every
// document, as simulate does.
func BenchmarkHoldback(b *testing.B) {
	in := lengths.LogNormal(benchDocs, 1)
	for _, x := range []struct {
		name string
		c    packonline.Config
	}{
		{"bucket", bucketConfig([]int{2048}, 4096, 16384)},
		{"bfd", config("bfd", 2048, 4096, 16384)},
		{"five", bucketConfig(fiveBuckets, 4096, 16384)},
	} {
		for _, hold := range []int{100, 0} {
			b.Run(fmt.Sprint(x.name, "/", hold), func(b *testing.B) {
				for b.Loop() {
					p := newPacker(b, held(x.c, hold))
					var out packonline.Rows
					for i, n := range in {
						p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &out)
						if p.Pending(); i%4096 == 0 {
							out.Reset()
						}
					}
					p.Flush(&out)
				}
				b.ReportMetric(float64(b.N)*benchDocs/b.Elapsed().Seconds(), "docs/s")
			})
		}
	}
}
