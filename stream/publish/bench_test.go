package publish_test

import (
	"fmt"
	"testing"

	"loaderd/stream"
	"loaderd/stream/publish"
)

// BenchmarkPublish stores documents of 4 KB on an embedded server that syncs every write. It compares atomic batches
// with one acknowledged publish per document.
func BenchmarkPublish(b *testing.B) {
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte('a' + i%26)
	}
	for _, c := range []struct {
		name string
		o    publish.Options
	}{
		{"single", publish.Options{Single: true}},
		{"batch=100", publish.Options{BatchMessages: 100}},
		{"batch=1000", publish.Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := publishStore(b, func(c *stream.Config) { c.MaxBytes = 16 << 30 })
			p := newPublisher(b, s, c.o)
			b.SetBytes(int64(len(data)))
			b.ResetTimer()
			for i := range b.N {
				if err := p.Publish(b.Context(), stream.Message{ID: fmt.Sprint(i), Data: data}); err != nil {
					b.Fatal(err)
				}
			}
			flush(b, p)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}
