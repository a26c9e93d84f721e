package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"loaderd/internal/lengths"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// mixedMeans are the mean lengths of five sources, in tokens.
var mixedMeans = []float64{80, 400, 1500, 6000, 20000}

// mixedTokens are how many tokens the run has whose shares are told.
const mixedTokens = 250e6

// sharesSeeds are how many runs each line of the table has, each of other documents and another order.
const sharesSeeds = 8

// printMixtureShares tells how far the shares of five sources of unlike lengths are off where they are to be equal: in every 100 steps, the first and
// the last ones included, and by chi-square. Figures are the worst of several runs, those of chi-square the mean.
func printMixtureShares(ctx context.Context, b *bench, out io.Writer) error {
	var m markdown
	m.row("lengths in a source", "pool", "window", "longest document", "steps", "first 100", "last 100", "every 100: median", "most",
		"chi-square, whole run", "chi-square of 200 steps, mean", "and of a random order", "beyond 9.49 (5 % of random ones)")
	logNormal := func(sigma float64) func(mean float64, seed uint64) []int32 {
		return func(mean float64, seed uint64) []int32 {
			return lengths.LogNormalOf(math.Log(mean)-sigma*sigma/2, sigma, mixedList, seed)
		}
	}
	for _, x := range []struct {
		name         string
		draw         func(mean float64, seed uint64) []int32
		pool, window int
	}{
		{"0.5 to 1.5 times the mean", around, 4096, 1024},
		{"0.5 to 1.5 times the mean", around, 4096, 256},
		{"0.5 to 1.5 times the mean", around, 2048, 256},
		{"log-normal, sigma 0.5", logNormal(.5), 4096, 1024},
		{"log-normal, sigma 0.5", logNormal(.5), 2048, 256},
		{"log-normal, sigma 1", logNormal(1), 4096, 1024},
		{"log-normal, sigma 1", logNormal(1), 2048, 256},
	} {
		var f shareFigures
		for seed := range uint64(sharesSeeds) {
			run, longest := equalMeans(seed, x.draw)
			run.config.Packing.Pool, run.config.Shuffle.Window = x.pool, x.window
			s, err := run.shares(ctx)
			if err != nil {
				return err
			}
			f.longest = max(f.longest, longest)
			f.add(s)
		}
		m.row(x.name, thousands(x.pool), thousands(x.window), thousands(int64(f.longest)), thousands(f.steps/sharesSeeds), percent(f.first, 2), percent(f.last, 2),
			percent(quantile(f.off, .5), 2), percent(quantile(f.off, 1), 2), fmt.Sprintf("%.2f", f.whole/sharesSeeds), fmt.Sprintf("%.2f", f.mean/sharesSeeds),
			len(mixedMeans)-1, percent(f.beyond/sharesSeeds, 1))
	}
	return m.print(out)
}

// mixedList is how many lengths a source has; they come again and again.
const mixedList = 1 << 14

// equalMeans is a run of five sources with the means, and equal weights. longest is its longest document.
func equalMeans(seed uint64, draw func(mean float64, seed uint64) []int32) (run *mixed, longest int32) {
	sources := map[string]mixture.Source{}
	all := make([][]int32, len(mixedMeans))
	for i, mean := range mixedMeans {
		sources[string(rune('a'+i))] = mixture.Source{Weight: 1, Epochs: 1}
		all[i] = draw(mean, seed*uint64(len(mixedMeans))+uint64(i+1))
		longest = max(longest, slices.Max(all[i]))
	}
	run = newMixed(sources, func(source int, sequence uint64) int { return int(all[source][sequence%mixedList]) })
	run.config.Seed = seed
	return run, longest
}

// shareFigures are those of one line of the table: shares are those that the worst source is off.
type shareFigures struct {
	longest             int32
	steps               int
	first, last         float64
	off                 []float64
	whole, mean, beyond float64 // chi-square, added up
}

func (f *shareFigures) add(s stepShares) {
	off := s.off(100)
	f.steps += len(s)
	f.first, f.last = max(f.first, off[0]), max(f.last, off[len(off)-1])
	f.off = append(f.off, off...)
	mean, beyond := s.windows(200)
	f.whole, f.mean, f.beyond = f.whole+s.chiSquare(), f.mean+mean, f.beyond+beyond
}

// around draws lengths from half a mean to one and a half.
func around(mean float64, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]int32, mixedList)
	for i := range out {
		out[i] = int32(mean * (.5 + r.Float64()))
	}
	return out
}

// stepShares are the tokens of each source, step by step, of sources that are to have equal shares.
type stepShares [][]int64

// shares plans a run and seals it.
func (m *mixed) shares(ctx context.Context) (stepShares, error) {
	a, err := m.begin()
	if err != nil {
		return nil, err
	}
	var s stepShares
	each := func(step plan.Step) { s = append(s, bySource(step, len(m.begins))) }
	if err := m.take(ctx, a, mixedTokens, each); err != nil {
		return nil, err
	}
	return s, m.end(a, each)
}

// all returns the tokens of each source in all steps, and their sum.
func (s stepShares) all() (of []int64, total int64) {
	of = make([]int64, len(s[0]))
	for _, step := range s {
		for i, n := range step {
			of[i] += n
			total += n
		}
	}
	return of, total
}

// off returns how far the worst source is off its share in every so many steps: from the first on, and in the last ones.
func (s stepShares) off(steps int) (out []float64) {
	for last := steps; ; last += steps {
		last = min(last, len(s))
		of, total := s[max(0, last-steps):last].all()
		worst := 0.0
		for _, n := range of {
			worst = max(worst, math.Abs(float64(n)/float64(total)-1/float64(len(of))))
		}
		if out = append(out, worst); last == len(s) {
			return out
		}
	}
}

// chiSquare compares the rows that each source fills with what its share lets expect. Rows that are drawn independently, each of one source, have as many as there are
// other sources in the mean.
func (s stepShares) chiSquare() (x float64) {
	of, total := s.all()
	expected := mixedRows(len(s)) / float64(len(of))
	for _, n := range of {
		d := mixedRows(len(s))*float64(n)/float64(total) - expected
		x += d * d / expected
	}
	return x
}

// mixedRows are the rows of so many steps.
func mixedRows(steps int) float64 { return float64(steps * planConfig(2048).Steps.Rows) }

// windows returns the mean chi-square of runs of so many steps, and how many of them are beyond the critical value.
func (s stepShares) windows(steps int) (mean, beyond float64) {
	n := len(s) / steps
	for i := range n {
		x := s[i*steps : (i+1)*steps].chiSquare()
		mean += x / float64(n)
		if x > critical {
			beyond += 1 / float64(n)
		}
	}
	return mean, beyond
}
