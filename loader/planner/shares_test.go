package planner_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// sharesOf plans documents of five sources to the end. For every step it returns the tokens of each source and the
// length of its rows. It also returns the cumulative target of each source, from the shares in the order of the taken
// tokens. If shares are of tokens with a loss, only these count. They are the last lossParts of each document.
func sharesOf(t *testing.T, c runconfig.Config, tokens int64,
	lossParts []float64) (steps [][]float64, buckets []int32, targets [][]float64) {
	t.Helper()
	means := []float64{80, 400, 1500, 6000, 20000}
	document := func(source int, sequence uint64) plan.Arrival {
		a := plan.Arrival{Source: source, Sequence: sequence,
			Length: int(means[source] * (.5 + rand.New(rand.NewPCG(uint64(source), sequence)).Float64()))}
		if lossParts != nil {
			loss := max(int32(lossParts[source]*float64(a.Length)), 1)
			a.Loss = plan.NewLossRuns([]int32{0, int32(a.Length) - loss, loss})
		}
		return a
	}
	var sources []plan.SourceBegin
	for i := range means {
		sources = append(sources, plan.SourceBegin{Name: string(rune('a' + i)), Start: 1})
	}
	a, err := planner.NewApplier(planrecord.Header{Config: c, Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	each := func(r planner.Ready) error {
		for _, s := range r.Steps {
			n := make([]float64, len(means))
			for _, row := range s.Rows {
				for _, x := range row {
					source := plan.RefSource(x.Doc)
					if lossParts == nil {
						n[source] += float64(x.Length)
						continue
					}
					runs := document(source, plan.RefSequence(x.Doc)).Loss
					n[source] += max(0, float64(x.Start+x.Length-max(x.Start, runs[1])))
				}
			}
			steps, buckets = append(steps, n), append(buckets, s.Bucket)
		}
		return nil
	}
	var from []float64
	var shares [][]float64
	for a.UsedTokens < tokens {
		m := a.Planner.Mixture()
		now := make([]float64, len(means))
		for i := range now {
			now[i] = m.Share(i)
		}
		if len(shares) == 0 || !slices.Equal(now, shares[len(shares)-1]) {
			taken := 0.0
			for _, s := range m.Status() {
				taken += float64(c.Mix.Share.Select(s.Tokens, s.LossTokens))
			}
			from, shares = append(from, taken), append(shares, now)
		}
		source, sequence, _ := a.Planner.NextDocument()
		r, err := a.AddDocument(document(source, sequence))
		if err != nil {
			t.Fatal(err)
		}
		each(r)
	}
	for i, s := range a.Planner.Mixture().Status() {
		a.Record(planrecord.SealSource{Arrival: a.Planner.Clock(), Source: i, Last: s.Taken})
	}
	if err := a.ApplyPending(each); err != nil || !a.Ended {
		t.Fatal(err)
	}
	total := 0.0
	for _, s := range steps {
		for _, n := range s {
			total += n
		}
		target := make([]float64, len(means))
		for k := range from {
			end := total
			if k+1 < len(from) {
				end = min(end, from[k+1])
			}
			for i, share := range shares[k] {
				target[i] += share * max(0, end-from[k])
			}
		}
		targets = append(targets, target)
	}
	return steps, buckets, targets
}

// In every 100 consecutive steps each source has its share of the tokens within 0.5 % of all tokens. With several
// buckets a step may exceed a share by more, because it holds rows of one bucket and so tokens of the sources with
// such lengths. Then each source is within the excess of two steps, one at either end of the 100.
func TestPlanner_SharesHoldInEvery100Steps(t *testing.T) {
	equal, short, long := []float64{1, 1, 1, 1, 1}, []float64{40, 30, 20, 5, 5}, []float64{5, 5, 20, 30, 40}
	several := []int{1024, 2048, 4096, 8192}
	for _, x := range []struct {
		name    string
		buckets []int
		tokens  int64 // per step, 0: 64 rows
		weights []float64
		then    []float64 // weights of the second half
		ramp    float64
		loss    []float64 // shares are of tokens with a loss, which are these parts of the documents
		around  float64   // bound around the change, where the buffered tokens have another part with a loss
	}{
		{name: "one length, equal weights", buckets: []int{2048}, weights: equal},
		{name: "one length, more of short documents", buckets: []int{2048}, weights: short},
		{name: "one length, more of long documents", buckets: []int{2048}, weights: long},
		{name: "one length, a change of weights", buckets: []int{2048}, weights: equal, then: short},
		{name: "one length, a ramp", buckets: []int{2048}, weights: equal, then: long, ramp: 20e6},
		{name: "several lengths, equal weights", buckets: several, tokens: 131072, weights: equal},
		{name: "several lengths, more of short documents", buckets: several, tokens: 131072, weights: short},
		{name: "several lengths, more of long documents", buckets: several, tokens: 131072, weights: long},
		{name: "several lengths, steps of 64 rows", buckets: several, weights: equal},
		{name: "one length, tokens with a loss", buckets: []int{2048}, weights: equal, loss: []float64{.5, .1, .3, .2, .9}},
		{name: "one length, tokens with a loss, a change", buckets: []int{2048}, weights: short, then: equal,
			loss: []float64{.9, .5, .1, .3, .2}, around: .02},
		{name: "several lengths, tokens with a loss", buckets: several, tokens: 131072, weights: equal,
			loss: []float64{.5, .1, .3, .2, .9}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := plantest.Config("bucket")
			c.Packing = packonline.Config{Method: "bucket", Buckets: x.buckets, Atom: 1, Pool: 4096, Holdback: 100,
				MaxAge: 16384}
			c.Shuffle.Window, c.Documents.Dedupe = 1024, 0
			c.Steps = runconfig.Steps{Rows: 64, Tokens: x.tokens, Backlog: 16, MaxWait: 262144, Last: runconfig.LastPad}
			c.Mix = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}
			c.Sources = map[string]mixture.Source{}
			then := map[string]float64{}
			for i, w := range x.weights {
				name := string(rune('a' + i))
				c.Sources[name] = mixture.Source{Weight: w, Epochs: 1}
				if x.then != nil {
					then[name] = x.then[i]
				}
			}
			const tokens = 50e6
			if x.then != nil {
				c.Mix.Schedule = []mixture.Point{{Tokens: tokens / 2, Ramp: mixture.Tokens(x.ramp), Weights: then}}
			}
			if x.loss != nil {
				c.Mix.Share = mixture.ShareLossTokens
			}
			steps, buckets, targets := sharesOf(t, c, tokens, x.loss)
			off, excess := offTargets(steps, buckets, targets)
			bound := max(.005, 2*excess)
			if len(x.buckets) == 1 {
				bound = max(.005, x.around)
			}
			t.Logf("%d steps: first 100 %.4f, last %.4f, most %.4f, median %.4f, excess of a step %.4f", len(steps), off[0],
				off[len(off)-1], slices.Max(off), slices.Sorted(slices.Values(off))[len(off)/2], excess)
			if most := slices.Max(off); most > bound {
				t.Errorf("a source is off its share by %.4f in the 100 steps before step %d, want at most %.4f", most,
					100+slices.Index(off, most), bound)
			}
		})
	}
}

// offTargets returns the deviation of the worst source from its share in every 100 steps, relative to their tokens.
// excess is the mean deviation of a step of the worst bucket, relative to the tokens of 100 steps.
func offTargets(steps [][]float64, buckets []int32, targets [][]float64) (off []float64, excess float64) {
	const window = 100
	sources := len(steps[0])
	sum, before := make([]float64, sources), make([]float64, sources)
	of, count := map[int32][]float64{}, map[int32]float64{}
	total := 0.0
	for i, s := range steps {
		b := buckets[i]
		if of[b] == nil {
			of[b] = make([]float64, sources)
		}
		count[b]++
		if i >= window {
			for k, n := range steps[i-window] {
				sum[k] -= n
			}
			before = targets[i-window]
		}
		tokens, worst := 0.0, 0.0
		for k, n := range s {
			sum[k] += n
			tokens += sum[k]
			total += n
			of[b][k] += n - targets[i][k]
			if i > 0 {
				of[b][k] += targets[i-1][k]
			}
		}
		for k := range sum {
			worst = max(worst, math.Abs(sum[k]-targets[i][k]+before[k]))
		}
		if i+1 >= window {
			off = append(off, worst/tokens)
		}
	}
	for b, x := range of {
		for _, n := range x {
			excess = max(excess, math.Abs(n)/count[b]/(total/float64(len(steps))*window))
		}
	}
	return off, excess
}

// FuzzSourcesState restores arbitrary bytes as the state of a run whose shares change. The result is an error or a
// working planner.
func FuzzSourcesState(f *testing.F) {
	c := plantest.Config("bucket")
	c.Packing.Buckets = []int{16, 32}
	c.Mix = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll,
		Schedule: []mixture.Point{{Tokens: 600, Ramp: 4000, Weights: map[string]float64{"a": 3, "b": 1}}}}
	c.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: 1}, "b": {Weight: 2, Epochs: 2, Block: 2}}
	sources := []plan.SourceBegin{{Name: "a", Start: 1}, {Name: "b", Start: 1, Sealed: true, Last: 200}}
	h := planrecord.Header{Config: c, Sources: sources}
	a, err := planner.NewApplier(h)
	if err != nil {
		f.Fatal(err)
	}
	for range 150 {
		source, sequence, _ := a.Planner.NextDocument()
		if _, err := a.AddDocument(mixedDocument(source, sequence)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(a.Planner.AppendState(nil))
	f.Fuzz(func(t *testing.T, state []byte) {
		p, err := planner.New(h)
		if err != nil {
			t.Fatal(err)
		}
		if p.RestoreState(state) != nil {
			return
		}
		for range 20 {
			if source, sequence, more := p.NextDocument(); more {
				if _, err := p.Add(mixedDocument(source, sequence)); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.Seal()
	})
}
