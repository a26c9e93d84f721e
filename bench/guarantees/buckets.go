package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"loaderd/bench/page"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// printShares compares the steps of each bucket with the tokens that were packed for it, and prints how long rows
// waited.
func printShares(ctx context.Context, b *bench, out io.Writer) error {
	in := arrivals(b.planned)
	var shares, waits page.Markdown
	shares.Values("`max_wait`", "steps", "chi-square, whole run", "chi-square of 200 steps, mean", "of a random order",
		"beyond 9.49 (5 % of random ones)", "tokens of padding", "rows of padding")
	waits.Values("bucket", "`max_wait`", "tokens packed", "steps served", "oldest row of a step waited, median", "at most",
		"at most, in steps")
	for _, maxWait := range []int{262144, 4096} {
		c := fiveConfig()
		c.Steps.MaxWait = maxWait
		s, err := serve(ctx, c, in)
		if err != nil {
			return err
		}
		windows, beyond := s.windows(200)
		shares.Values(thousands(maxWait), thousands(len(s.order)), fmt.Sprintf("%.2f", s.chiSquare(0, len(s.order))),
			fmt.Sprintf("%.2f", windows), len(fiveBuckets)-1, percent(beyond, 1), percent(s.padding, 4), thousands(s.emptyRows))
		for i, length := range c.Packing.Buckets {
			packed, served := s.shares(0, len(s.order), i)
			w, steps := s.waits[i], s.waitSteps[i]
			waits.Values(length, thousands(maxWait), percent(packed, 2), percent(served, 2), thousands(quantile(w, .5)),
				thousands(quantile(w, 1)), thousands(quantile(steps, 1)))
		}
	}
	if err := shares.Print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return waits.Print(out)
}

// served is the buckets of a plan's steps, and what was packed for the buckets meanwhile.
type served struct {
	order     []int       // bucket of each step
	packed    [][]float64 // at first and after each step: tokens packed per bucket so far
	waits     [][]int64   // per bucket, by step: documents that arrived while its oldest row waited
	waitSteps [][]int64   // and steps that were planned
	padding   float64     // share of the slots
	emptyRows int         // rows of padding only
}

// serve plans documents. A separate packer with the same input shows what was packed when.
func serve(ctx context.Context, c runconfig.Config, in []plan.Arrival) (*served, error) {
	n := len(c.Packing.Buckets)
	s := &served{packed: [][]float64{make([]float64, n)}, waits: make([][]int64, n), waitSteps: make([][]int64, n)}
	c.Packing.Seed = c.Seed
	packer, err := packonline.New(c.Packing)
	if err != nil {
		return nil, err
	}
	var rows packonline.Rows
	packed := make([]float64, n)
	var was []planner.QueueStat
	nextAt := make([]uint64, len(in)+1) // step that follows each document
	p, err := planSteps(ctx, c, in, func(p *planner.Planner, a plan.Arrival, steps []plan.Step) {
		rows.Reset()
		packer.Add(packonline.Doc{Seq: a.Sequence, Length: int32(a.Length)}, &rows)
		for i := range rows.Len() {
			length, pieces, _ := rows.Row(i)
			for _, x := range pieces {
				packed[slices.Index(c.Packing.Buckets, int(length))] += float64(x.Length)
			}
		}
		nextAt[a.Sequence] = p.Next()
		for k, step := range steps {
			bucket := slices.Index(c.Packing.Buckets, int(step.Bucket))
			s.order = append(s.order, bucket)
			s.packed = append(s.packed, slices.Clone(packed))
			s.emptyRows += emptyRows(step.Rows)
			again := slices.ContainsFunc(steps[:k], func(o plan.Step) bool { return o.Bucket == step.Bucket })
			if !again && was != nil && was[bucket].Rows > 0 {
				came := int64(a.Sequence) - 1 - was[bucket].Wait
				s.waits[bucket] = append(s.waits[bucket], int64(a.Sequence)-came)
				s.waitSteps[bucket] = append(s.waitSteps[bucket], int64(step.Index-nextAt[came]))
			}
		}
		was = p.Queues()
	})
	if err != nil {
		return nil, err
	}
	counts, _ := p.Counts()
	s.padding = 1 - float64(counts.Tokens)/float64(counts.Slots)
	return s, nil
}

func emptyRows(rows [][]packonline.Piece) (n int) {
	for _, r := range rows {
		if len(r) == 0 {
			n++
		}
	}
	return n
}

// shares returns a bucket's share of the tokens packed, and of the steps served, over steps [from, to).
func (s *served) shares(from, to, bucket int) (packed, served float64) {
	var total float64
	for i := range s.packed[0] {
		total += s.packed[to][i] - s.packed[from][i]
	}
	for _, b := range s.order[from:to] {
		if b == bucket {
			served++
		}
	}
	return (s.packed[to][bucket] - s.packed[from][bucket]) / total, served / float64(to-from)
}

// chiSquare compares the steps of each bucket in [from, to) with those expected from its share of the tokens.
func (s *served) chiSquare(from, to int) (x float64) {
	n := float64(to - from)
	for bucket := range s.packed[0] {
		expected, observed := s.shares(from, to, bucket)
		x += n * (observed - expected) * (observed - expected) / expected
	}
	return x
}

// critical is the value that chi-square with four degrees of freedom exceeds in 5 % of the cases.
const critical = 9.488

// windows returns the mean chi-square of intervals of the given length, and the share of intervals above the critical
// value.
func (s *served) windows(steps int) (mean, beyond float64) {
	n := len(s.order) / steps
	for i := range n {
		x := s.chiSquare(i*steps, (i+1)*steps)
		mean += x / float64(n)
		if x > critical {
			beyond += 1 / float64(n)
		}
	}
	return mean, beyond
}

// printOrder prints how random the order of the buckets is. Runs are counted as by Wald and Wolfowitz, for several
// kinds.
func printOrder(ctx context.Context, b *bench, out io.Writer) error {
	in := arrivals(b.planned)
	var m page.Markdown
	m.Values("`steps.backlog`", "steps", "same bucket as the step before", "in a random order",
		"standard deviations apart", "longest run",
		"steps to the next of the rarest bucket", "their standard deviation", "in a random order")
	for _, backlog := range []int{0, 4, 16, 64} {
		c := fiveConfig()
		c.Steps.Backlog = backlog
		s, err := serve(ctx, c, in)
		if err != nil {
			return err
		}
		r := runsOf(s.order, len(fiveBuckets))
		m.Values(backlog, thousands(len(s.order)), percent(r.same, 1), percent(r.expectedSame, 1),
			fmt.Sprintf("%+.1f", (r.expected-float64(r.runs))/r.deviation), r.longest,
			fmt.Sprintf("%.1f", r.gap), fmt.Sprintf("%.1f", r.gapDeviation), fmt.Sprintf("%.1f", r.gapRandom))
	}
	return m.Print(out)
}

// runFigures describe an order of kinds, compared with the mean of all its permutations.
type runFigures struct {
	runs, longest                int
	expected, deviation          float64 // of runs
	same, expectedSame           float64 // share of elements of the same kind as their predecessor
	gap, gapDeviation, gapRandom float64 // between consecutive elements of the rarest kind
}

func runsOf(order []int, kinds int) (f runFigures) {
	of := make([]float64, kinds)
	length := 0
	for i, k := range order {
		of[k]++
		if i == 0 || k != order[i-1] {
			f.runs, length = f.runs+1, 0
		}
		length++
		f.longest = max(f.longest, length)
	}
	n := float64(len(order))
	var squares, cubes float64
	for _, x := range of {
		squares += x * x
		cubes += x * x * x
	}
	f.expected = (n*(n+1) - squares) / n
	f.deviation = math.Sqrt((squares*(squares+n*(n+1)) - 2*n*cubes - n*n*n) / (n * n * (n - 1)))
	f.same, f.expectedSame = (n-float64(f.runs))/(n-1), (n-f.expected)/(n-1)

	rarest := slices.Index(of, slices.Min(of))
	var gaps []float64
	last := -1
	for i, k := range order {
		if k != rarest {
			continue
		}
		if last >= 0 {
			gaps = append(gaps, float64(i-last))
			f.gap += float64(i - last)
		}
		last = i
	}
	f.gap /= float64(len(gaps))
	for _, x := range gaps {
		f.gapDeviation += (x - f.gap) * (x - f.gap) / float64(len(gaps))
	}
	f.gapDeviation = math.Sqrt(f.gapDeviation)
	p := of[rarest] / n
	f.gapRandom = math.Sqrt(1-p) / p // of a geometric distribution
	return f
}
