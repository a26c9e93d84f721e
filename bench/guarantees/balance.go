package main

import (
	"context"
	"io"
	"slices"

	"loaderd/bench/page"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

var worlds = []int{2, 4, 8, 16}

// printBalance compares the attention cost within documents of a step's costliest rank with the mean of the ranks.
func printBalance(ctx context.Context, b *bench, out io.Writer) error {
	in := arrivals(b.planned / 4)
	var m page.Markdown
	m.Values("buckets", "ranks", "mean", "with `steps.balance`", "no order can do better than", "most",
		"with `steps.balance`", "no order can do better than")
	for _, c := range []runconfig.Config{planConfig(2048), planConfig(fiveBuckets...)} {
		var over [2][]excess
		for i := range over {
			c.Steps.Balance = i == 1
			x := make([]excess, len(worlds))
			if _, err := planSteps(ctx, c, in, func(_ *planner.Planner, _ plan.Arrival, steps []plan.Step) {
				for _, s := range steps {
					for k, w := range worlds {
						x[k].observe(s.Rows, w)
					}
				}
			}); err != nil {
				return err
			}
			over[i] = x
		}
		for k, w := range worlds {
			plain, ordered := over[0][k], over[1][k]
			m.Values(len(c.Packing.Buckets), w, percent(plain.mean(), 1), percent(ordered.mean(), 2),
				percent(plain.boundMean(), 2), percent(plain.most, 0), percent(ordered.most, 1), percent(plain.boundMost, 1))
		}
	}
	return m.Print(out)
}

// excess is by how much the costliest rank of a step exceeds the mean of the ranks, over many steps.
type excess struct {
	steps                 int
	total, most           float64
	boundTotal, boundMost float64 // lower bound over all orders of the rows
}

// observe counts a step.
func (e *excess) observe(rows [][]packonline.Piece, world int) {
	costs := make([]float64, len(rows))
	ranks := make([]float64, world)
	var sum float64
	for i, r := range rows {
		for _, x := range r {
			costs[i] += float64(x.Length) * float64(x.Length)
		}
		sum += costs[i]
		ranks[i*world/len(rows)] += costs[i]
	}
	mean := sum / float64(world)
	over := slices.Max(ranks)/mean - 1
	// One rank has the costliest row, and with it at least the cheapest rows.
	slices.Sort(costs)
	least := costs[len(costs)-1]
	for _, c := range costs[:len(rows)/world-1] {
		least += c
	}
	bound := max(least/mean-1, 0)
	e.steps++
	e.total, e.most = e.total+over, max(e.most, over)
	e.boundTotal, e.boundMost = e.boundTotal+bound, max(e.boundMost, bound)
}

func (e *excess) mean() float64      { return e.total / float64(e.steps) }
func (e *excess) boundMean() float64 { return e.boundTotal / float64(e.steps) }
