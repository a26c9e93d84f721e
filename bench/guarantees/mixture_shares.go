package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// mixedMeans are the mean lengths of five sources, in tokens.
var mixedMeans = []float64{80, 400, 1500, 6000, 20000}

// mixedTokens is the number of tokens of the run whose shares are printed.
const mixedTokens = 250e6

// sharesSeeds is the number of runs of each line of the table, each with other documents and another order.
const sharesSeeds = 8

// shape is a line of the table of printMixtureShares.
type shape struct {
	steps   string
	mix     string
	buckets []int
	tokens  int64 // of a step; 0: 64 rows
	means   []float64
	weights []float64
	then    []float64 // weights of the second half, after a ramp over a tenth of the run
}

// printMixtureShares prints the deviation of the worst source from its share in every 100 consecutive steps. Figures
// are the worst of several runs; the median is over all of them.
func printMixtureShares(ctx context.Context, _ *bench, out io.Writer) error {
	var m page.Markdown
	m.Values("row lengths", "step", "sources and weights", "steps", "first 100", "last 100", "every 100: median",
		"maximum", "excess of one step", "padding")
	one, several := []int{2048}, []int{1024, 2048, 4096, 8192}
	equal, long := []float64{1, 1, 1, 1, 1}, []float64{5, 5, 20, 30, 40}
	twenty, ones := make([]float64, 20), make([]float64, 20)
	for i := range twenty {
		twenty[i], ones[i] = mixedMeans[0]*math.Pow(mixedMeans[4]/mixedMeans[0], float64(i)/19), 1
	}
	for _, x := range []shape{
		{"64 rows", "five, equal", one, 0, mixedMeans, equal, nil},
		{"64 rows", "five, 5 to 40 % by length", one, 0, mixedMeans, long, nil},
		{"64 rows", "five, equal, then a ramp to 5 to 40 %", one, 0, mixedMeans, equal, long},
		{"131,072 tokens", "five, equal", several, 131072, mixedMeans, equal, nil},
		{"131,072 tokens", "five, 5 to 40 % by length", several, 131072, mixedMeans, long, nil},
		{"131,072 tokens", "20, equal", several, 131072, twenty, ones, nil},
		{"64 rows", "five, equal", several, 0, mixedMeans, equal, nil},
		{"64 rows", "five, 5 to 40 % by length", several, 0, mixedMeans, long, nil},
	} {
		var first, last, excess, padding float64
		var off []float64
		steps := 0
		for seed := range uint64(shapeSeeds) {
			s, err := x.run(seed).plan(ctx, shapeTokens)
			if err != nil {
				return err
			}
			o := s.off(100)
			off = append(off, o...)
			steps += len(s.steps)
			first, last = max(first, o[0]), max(last, o[len(o)-1])
			excess, padding = max(excess, s.excess(100)), max(padding, s.padding)
		}
		rows := thousands(x.buckets[0])
		if n := len(x.buckets); n > 1 {
			rows += " to " + thousands(x.buckets[n-1])
		}
		excessOf := "-"
		if len(x.buckets) > 1 {
			excessOf = percent(excess, 2)
		}
		m.Values(rows, x.steps, x.mix, thousands(steps/shapeSeeds), percent(first, 2), percent(last, 2),
			percent(quantile(off, .5), 2), percent(quantile(off, 1), 2), excessOf, percent(padding, 2))
	}
	return m.Print(out)
}

// The number of runs per line of printMixtureShares, and the tokens of each.
const (
	shapeSeeds  = 4
	shapeTokens = 100e6
)

// run returns a run of the shape whose documents have 0.5 to 1.5 times the mean lengths.
func (x *shape) run(seed uint64) *mixed {
	sources, then := map[string]mixture.Source{}, map[string]float64{}
	lists := make([][]int32, len(x.means))
	for i, mean := range x.means {
		name := fmt.Sprintf("s%02d", i)
		sources[name] = mixture.Source{Weight: x.weights[i], Epochs: 1}
		if x.then != nil {
			then[name] = x.then[i]
		}
		lists[i] = around(mean, seed*uint64(len(x.means))+uint64(i+1))
	}
	m := newMixed(sources, func(source int, sequence uint64) int { return int(lists[source][sequence%mixedList]) })
	m.config.Seed, m.config.Packing.Buckets, m.config.Steps.Tokens = seed, x.buckets, x.tokens
	if x.then != nil {
		m.config.Mix.Schedule = []mixture.Point{{Tokens: shapeTokens / 2, Ramp: shapeTokens / 10, Weights: then}}
	}
	return m
}

// printMixtureLengths prints the deviation of five sources with different lengths from equal shares: in every 100
// steps, and by chi-square. Figures are the worst of several runs; those of chi-square are the mean.
func printMixtureLengths(ctx context.Context, _ *bench, out io.Writer) error {
	var m page.Markdown
	m.Values("lengths in a source", "pool", "window", "longest document", "steps", "first 100", "last 100",
		"every 100: median", "maximum",
		"chi-square, whole run", "chi-square of 200 steps, mean", "of a random order", "beyond 9.49 (5 % of random ones)")
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
			s, err := run.plan(ctx, mixedTokens)
			if err != nil {
				return err
			}
			f.longest = max(f.longest, longest)
			f.add(s)
		}
		m.Values(x.name, thousands(x.pool), thousands(x.window), thousands(int64(f.longest)), thousands(f.steps/sharesSeeds),
			percent(f.first, 2), percent(f.last, 2),
			percent(quantile(f.off, .5), 2), percent(quantile(f.off, 1), 2), fmt.Sprintf("%.2f", f.whole/sharesSeeds),
			fmt.Sprintf("%.2f", f.mean/sharesSeeds),
			len(mixedMeans)-1, percent(f.beyond/sharesSeeds, 1))
	}
	return m.Print(out)
}

// mixedList is the number of lengths of a source, which are repeated.
const mixedList = 1 << 14

// equalMeans returns a run of five sources with the means and equal weights, and its longest document.
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

// shareFigures is the figures of a line of the table of printMixtureLengths, for the source with the largest
// deviation.
type shareFigures struct {
	longest             int32
	steps               int
	first, last         float64
	off                 []float64
	whole, mean, beyond float64 // chi-square, summed
}

func (f *shareFigures) add(s *planned) {
	off := s.off(100)
	f.steps += len(s.steps)
	f.first, f.last = max(f.first, off[0]), max(f.last, off[len(off)-1])
	f.off = append(f.off, off...)
	mean, beyond := s.steps.windows(200)
	f.whole, f.mean, f.beyond = f.whole+s.steps.chiSquare(), f.mean+mean, f.beyond+beyond
}

// around draws lengths from 0.5 to 1.5 times a mean.
func around(mean float64, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]int32, mixedList)
	for i := range out {
		out[i] = int32(mean * (.5 + r.Float64()))
	}
	return out
}

// stepShares is the tokens of each source, by step.
type stepShares [][]int64

// planned is a planned run.
type planned struct {
	steps   stepShares
	buckets []int32     // length of the rows, by step
	targets [][]float64 // target tokens of each source, by step
	padding float64     // share of the slots
}

// plan plans documents of the given tokens and seals the run. The targets are the shares of the mixture at the tokens
// taken.
func (m *mixed) plan(ctx context.Context, tokens int64) (*planned, error) {
	a, err := m.begin()
	if err != nil {
		return nil, err
	}
	p := &planned{}
	each := func(s plan.Step) {
		p.steps, p.buckets = append(p.steps, bySource(s, len(m.begins))), append(p.buckets, s.Bucket)
	}
	var from []float64
	var shares [][]float64
	for a.UsedTokens < tokens {
		mix, now := a.Planner.Mixture(), make([]float64, len(m.begins))
		for i := range now {
			now[i] = mix.Share(i)
		}
		if len(shares) == 0 || !slices.Equal(now, shares[len(shares)-1]) {
			from, shares = append(from, float64(mix.Tokens())), append(shares, now)
		}
		if err := m.take(ctx, a, a.UsedTokens+1, each); err != nil {
			return nil, err
		}
	}
	if err := m.end(a, each); err != nil {
		return nil, err
	}
	begin := 0.0
	for _, s := range p.steps {
		end := begin
		for _, n := range s {
			end += float64(n)
		}
		target := make([]float64, len(s))
		for k := range from {
			until := end
			if k+1 < len(from) {
				until = min(end, from[k+1])
			}
			for i, share := range shares[k] {
				target[i] += share * max(0, until-max(begin, from[k]))
			}
		}
		p.targets, begin = append(p.targets, target), end
	}
	counts, _ := a.Planner.Counts()
	p.padding = 1 - float64(counts.Tokens)/float64(counts.Slots)
	return p, nil
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

// off returns the deviation of the worst source from its share in every window of consecutive steps, as a share of
// the window's tokens.
func (p *planned) off(steps int) (out []float64) {
	excess, total := make([]float64, len(p.steps[0])), 0.0
	add := func(step int, sign float64) {
		for i, n := range p.steps[step] {
			excess[i] += sign * (float64(n) - p.targets[step][i])
			total += sign * float64(n)
		}
	}
	for last := range p.steps {
		add(last, 1)
		if last >= steps {
			add(last-steps, -1)
		}
		worst := 0.0
		for _, x := range excess {
			worst = max(worst, math.Abs(x))
		}
		if last+1 >= min(steps, len(p.steps)) {
			out = append(out, worst/total)
		}
	}
	return out
}

// excess returns the mean deviation of a step of the worst bucket from its shares, as a share of the tokens of the
// given number of steps.
func (p *planned) excess(steps int) (most float64) {
	of, count, total := map[int32][]float64{}, map[int32]float64{}, 0.0
	for k, step := range p.steps {
		b := p.buckets[k]
		if count[b]++; of[b] == nil {
			of[b] = make([]float64, len(step))
		}
		for i, n := range step {
			of[b][i] += float64(n) - p.targets[k][i]
			total += float64(n)
		}
	}
	for b, x := range of {
		for _, n := range x {
			most = max(most, math.Abs(n)/count[b]*float64(len(p.steps))/(total*float64(steps)))
		}
	}
	return most
}

// chiSquare compares the rows that each source fills with those expected from its share. For rows drawn
// independently, each of one source, its mean is the number of sources minus 1.
func (s stepShares) chiSquare() (x float64) {
	of, total := s.all()
	expected := mixedRows(len(s)) / float64(len(of))
	for _, n := range of {
		d := mixedRows(len(s))*float64(n)/float64(total) - expected
		x += d * d / expected
	}
	return x
}

// mixedRows returns the rows of a number of steps.
func mixedRows(steps int) float64 { return float64(steps * planConfig(2048).Steps.Rows) }

// windows returns the mean chi-square of intervals of the given length, and the share of intervals above the critical
// value.
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
