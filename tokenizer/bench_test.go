package tokenizer

import (
	"maps"
	"slices"
	"testing"

	"loaderd/tokenizer/internal/tokentest"
)

func BenchmarkEncode(b *testing.B) {
	docs := tokentest.SourceText(b)
	size := 0
	for _, d := range docs {
		size += len(d)
	}
	for _, name := range Builtin() {
		b.Run(name, func(b *testing.B) {
			e := load(b, name).NewEncoder()
			var ids []int32
			tokens := 0
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, d := range docs {
					ids = e.Encode(ids[:0], d)
					tokens += len(ids)
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkHostile encodes each text with a new encoder.
func BenchmarkHostile(b *testing.B) {
	texts := tokentest.HostileTexts(10 << 20)
	ids := make([]int32, 64<<20)
	for i := range ids { // so that the system allocates this memory now
		ids[i] = 1
	}
	for _, name := range Builtin() {
		m := load(b, name)
		for _, kind := range slices.Sorted(maps.Keys(texts)) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(texts[kind])))
				for b.Loop() {
					b.StopTimer()
					fresh := *m
					fresh.words = m.words.CloneUnshared()
					e := fresh.NewEncoder()
					b.StartTimer()
					e.Encode(ids[:0], texts[kind])
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range Builtin() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(name, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
