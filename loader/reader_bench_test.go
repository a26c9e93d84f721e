package loader_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"loaderd/loader"
	"loaderd/loader/state"
)

// BenchmarkReaders reads all steps of a run in jobs of 64 ranks, with a row of 256 tokens per rank. The follower's
// cost per rank and step must not grow with the number of ranks.
func BenchmarkReaders(b *testing.B) {
	const world, steps = 64, 100
	for _, jobs := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("ranks=%d", jobs*world), func(b *testing.B) {
			for b.Loop() {
				w := newFixture(config("bfd"))
				w.config.Packing.Buckets, w.config.Packing.Pool, w.config.Packing.MaxAge = []int{256}, 1024, 4096
				w.config.Shuffle.Window, w.config.Steps.Rows = 256, world
				w.options.Ahead, w.options.CheckpointSteps, w.options.CacheBytes = 16, 0, 1<<30
				lengths := someLengths(1, 20_000)
				for i := range lengths {
					lengths[i] *= 10
				}
				w.docs.lengths(lengths...)
				run, err := loader.Open(b.Context(), "test", w.config, w.options, w.edgesOf())
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				served := make(chan error, 1)
				go func() { served <- run.Serve(ctx) }()
				g, reading := errgroup.WithContext(ctx)
				for i := range jobs * world {
					place := state.RankID{Job: fmt.Sprint(i / world), Rank: i % world, World: world}
					g.Go(func() error { return readSteps(reading, run, place, steps) })
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
				cancel()
				if err := <-served; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs*world*steps), "ns/batch")
		})
	}
}

func readSteps(ctx context.Context, run *loader.Run, place state.RankID, n int) error {
	r, err := run.Join(place, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for range n {
		s, err := r.Next(ctx)
		if err != nil {
			return err
		}
		first, rows := place.RowRange(len(s.Rows))
		if _, err := run.Assemble(ctx, s, first, rows); err != nil {
			return err
		}
	}
	return nil
}
