package forecast

import (
	"context"
	"math"
	"runtime"

	"loaderd/internal/event"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/shuffle"
)

// forecast determines how long a run will be. It samples the remaining documents to estimate their tokens per source,
// and the number of steps that the run's own planner makes of such documents. If no source can receive more documents
// and the cost is acceptable, it measures the run instead.
type forecast struct {
	e        *Estimator
	throttle throttle
	samples  map[int]*sample // by source
	round    uint64
}

// Effort bounds the cost of an estimate, in documents of all sources. Tests change it.
var Effort = struct {
	Read   int   // added to the samples per estimate
	tokens int64 // bound on the tokens of these documents
	Sample int   // maximum size of all samples
	Played int   // planned to determine the tokens per step
	most   int   // planned if these give too few steps
}{1024, 4 << 20, 1 << 16, 1 << 16, 1 << 20}

const (
	// leastSample is the minimum number of documents of a source in a sample, if the source has that many.
	leastSample = 64
	// playedSteps is the number of steps that suffices to determine the tokens per step.
	playedSteps = 16
	// playedTogether is the number of documents planned without yielding: less than a millisecond of work.
	playedTogether = 128
)

// renew updates the estimate. ended reports that the plan already has the run's end.
func (f *forecast) renew(ctx context.Context) (ended bool, err error) {
	c, err := f.e.run.Copy(ctx)
	if err != nil || c.Ended {
		return c.Ended, err
	}
	f.e.mu.Lock()
	sure := f.e.known != nil && f.e.known.Exact && f.e.at == c.Controls
	asked := f.e.asked
	f.e.mu.Unlock()
	if sure {
		return false, nil
	}
	f.throttle.begin()
	left, err := f.left(ctx, c)
	if err != nil {
		return false, err
	}
	stored := make(map[int]uint64, len(left))
	for i, r := range left {
		if r.sample != nil {
			stored[i] = r.last
		}
	}
	f.e.mu.Lock()
	f.e.stored = stored
	f.e.mu.Unlock()
	known, tokens, err := f.estimate(ctx, c, left)
	if err != nil {
		return false, err
	}
	f.e.tells(known, c.Controls)
	if known.Endless || known.Idle || len(known.Open) > 0 || c.rests() || !asked && tokens > float64(f.e.options.Measure) {
		return false, nil
	}
	steps, err := f.count(ctx, c, known)
	if err != nil {
		return false, err
	}
	f.e.tells(state.Length{Steps: steps, Exact: true}, c.Controls)
	f.e.log.Info("estimated the length of the run", event.RunEstimated, "steps", steps)
	return false, nil
}

// rests reports whether a source with remaining documents is paused. When it resumes is undecided.
func (c Copied) rests() bool {
	for _, s := range c.Sources {
		if s.Resting && !s.UsedUp && !s.Removed {
			return true
		}
	}
	return false
}

// rest describes the remaining documents of a source.
type rest struct {
	*sample
	config mixture.Source
	last   uint64  // last stored document
	epoch  uint64  // current epoch
	first  []drawn // remaining documents of the sample in the current epoch
	now    float64 // remaining documents of the current epoch
	lost   float64 // part of the used documents that are duplicates, as observed so far
	tokens float64 // in all epochs; math.Inf(1) for a source that repeats forever
	doubt  float64 // standard error of tokens
}

// left returns the remaining documents of the sources: all that are stored, and a sample of them.
func (f *forecast) left(ctx context.Context, c Copied) ([]rest, error) {
	streams, err := f.e.streams.All(ctx, f.e.run.Header())
	if err != nil {
		return nil, err
	}
	n := len(c.Sources)
	out := make([]rest, n)
	f.round++
	size := min(int(f.round)*max(Effort.Read/n, leastSample), max(Effort.Sample/n, leastSample))
	for i := range out {
		r := &out[i]
		if c.Sources[i].Removed || c.Sources[i].UsedUp {
			continue
		}
		state, err := streams[i].Documents.State(ctx)
		if err != nil {
			return nil, err
		}
		walk, place := f.walk(c, i, state.Last)
		r.last, r.config = walk.Last, c.Mix.Config(i)
		r.now = float64(walk.Len() - min(place.Taken, walk.Len()))
		from := place.Taken
		if r.config.Epochs.Another(place.Epoch + 1) {
			from = 0 // the documents already read repeat
		}
		if !f.samples[i].serves(place.Epoch, from, walk.Len()) {
			f.samples[i] = newSample(f.e.config.Seed, i, place.Epoch, from, max(walk.Len(), from))
		}
		r.sample = f.samples[i]
		r.taken(from)
		if err := r.grow(ctx, streams[i].Documents, walk, size, Effort.tokens/int64(n), f.throttle.rest); err != nil {
			return nil, err
		}
		r.epoch, r.first = place.Epoch, r.behind(place.Taken)
		r.count(c, i)
	}
	return out, nil
}

// walk returns the order in which a source's documents are read up to the last stored one, and the current place in
// it.
func (f *forecast) walk(c Copied, source int, last uint64) (*mixture.Walk, mixture.Place) {
	place := c.Mix.Place(source)
	walk := c.Mix.Walk(source, place.Epoch)
	if !c.Sources[source].Sealed { // then it is in the order of the stream
		walk.Last = max(last+1, walk.First+place.Taken) - 1
	}
	return walk, place
}

// count estimates the remaining tokens of a source from its sample.
func (r *rest) count(c Copied, source int) {
	mean, off := meanOf(r.first, r.now, r.config)
	s, counts := c.Sources[source], c.Counts[source]
	duplicates := counts.Skipped.Of(plan.SkipDuplicate)
	if used := counts.Arrived - counts.Skipped.Total() + duplicates; used > 0 {
		r.lost = float64(duplicates) / float64(used)
	}
	epochs, fresh := float64(s.Epochs)-float64(s.Epoch), float64(s.Fresh)
	if s.Epochs == mixture.Forever {
		epochs = math.Inf(1)
	}
	now := r.now * mean * (1 - r.lost)
	r.tokens, r.doubt = now, r.now*off*(1-r.lost)
	if epochs > 1 {
		r.tokens, r.doubt = now+(epochs-1)*(fresh+now), epochs*r.doubt
	}
	if r.now+fresh == 0 { // no epoch follows one without tokens
		r.tokens, r.doubt = 0, 0
	}
}

// estimate returns the estimated length of the run, and the number of tokens that it still reads.
func (f *forecast) estimate(ctx context.Context, c Copied,
	left []rest) (known state.Length, tokens float64, err error) {
	known.Open = c.open()
	tokens, doubt, how := c.lasts(left)
	if how != mixture.Ends {
		known.Endless, known.Idle = how == mixture.Endless, how == mixture.Idle
		return known, tokens, nil
	}
	a, err := f.e.play(ctx, c)
	if err != nil {
		return known, tokens, err
	}
	p := played{Applier: a, left: left, key: shuffle.NewKey(f.e.config.Seed, "documents to come")}
	if err := p.run(ctx, c); err != nil {
		return known, tokens, err
	}
	steps, off := p.steps(tokens, doubt)
	known.Steps, known.Error = uint64(math.Round(steps)), uint64(math.Ceil(2*off))+1
	return known, tokens, nil
}

// lasts returns the number of tokens that the run still reads, with the standard error.
func (c Copied) lasts(left []rest) (tokens, doubt float64, how mixture.Ending) {
	tokens, how = c.Mix.Lasts(tokensOf(left, -1))
	if how != mixture.Ends {
		return 0, 0, how
	}
	squares := 0.0
	for i := range left {
		if left[i].doubt > 0 {
			more, _ := c.Mix.Lasts(tokensOf(left, i))
			squares += (more - tokens) * (more - tokens)
		}
	}
	return tokens, math.Sqrt(squares), how
}

// tokensOf returns the remaining tokens of each source, with the standard error added to one of them.
func tokensOf(left []rest, more int) []float64 {
	out := make([]float64, len(left))
	for i := range left {
		out[i] = left[i].tokens
	}
	if more >= 0 {
		out[more] += left[more].doubt
	}
	return out
}

// played is a copy of the run's planner that plans documents such as those of the samples, from the run's current
// position. It writes nothing.
type played struct {
	*planner.Applier
	left  []rest
	key   shuffle.Key
	dealt []mixture.Place // number of documents dealt from each source, and their epoch

	fed     int64 // tokens at its start
	first   uint64
	count   float64 // steps made before the end
	sum     float64 // tokens of these steps
	squares float64 // sum of the squared tokens of these steps
	whole   bool    // it reached the run's end
}

// run plans documents until it has enough steps, or the run ends, and then seals the planner. It yields to all ready
// goroutines between portions. Otherwise ranks that wait for a step would wait until the runtime preempts it. It does
// not sleep, because its copy of the planner uses memory.
func (p *played) run(ctx context.Context, c Copied) error {
	p.fed, p.first, p.dealt = p.Fed, p.Planner.Next(), make([]mixture.Place, len(p.left))
	p.ends(c)
	for n := 0; ; n++ {
		if err := p.Settle(p.takes); err != nil {
			return err
		}
		if p.whole = p.Ended; p.whole {
			return nil
		}
		if n >= Effort.most || n >= Effort.Played && p.count >= playedSteps {
			break
		}
		if n%playedTogether == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			runtime.Gosched()
		}
		source, sequence, ok := p.Planner.Wants()
		a, there := plan.Arrival{}, false
		if ok {
			a, there = p.deal(source, sequence)
		}
		if !there {
			break
		}
		ready, err := p.Document(a)
		if err != nil {
			return err
		}
		if err := p.takes(ready); err != nil {
			return err
		}
	}
	p.Planner.Seal()
	return nil
}

// ends seals all open sources after their last stored documents, and resumes paused sources.
func (p *played) ends(c Copied) {
	for i, s := range c.Sources {
		if !s.Sealed && !s.Removed && !p.sealing(i) {
			p.Record(planrecord.SealSource{At: c.Clock, Source: i, Last: p.left[i].last})
		}
		if s.Resting && !s.Removed {
			p.Record(planrecord.Rest{At: c.Clock, Source: i})
		}
	}
}

// sealing reports whether a seal of a source is recorded and not in effect yet.
func (p *played) sealing(source int) bool {
	for _, c := range p.Pending {
		if s, ok := c.(planrecord.SealSource); ok && s.Source == source {
			return true
		}
	}
	return false
}

// deal returns a document of the sample in place of a future one. Within an epoch it uses all of them equally often.
func (p *played) deal(source int, sequence uint64) (a plan.Arrival, ok bool) {
	r, at := &p.left[source], &p.dealt[source]
	epoch := p.Planner.Mixture().Place(source).Epoch
	if at.Epoch != epoch {
		*at = mixture.Place{Epoch: epoch}
	}
	some := r.first
	if epoch != r.epoch || len(some) == 0 && r.sample != nil {
		some = r.drawn
	}
	if len(some) == 0 {
		return a, false
	}
	n := at.Taken
	at.Taken++
	a = some[n%uint64(len(some))].Arrival
	a.Source, a.Sequence, a.ID = source, sequence, 0
	if a.Skip == plan.SkipSplit {
		a.Skip = ""
	}
	if a.Skip == "" && r.lost > 0 && float64(p.key.Uint64(uint64(source)<<48|n)) < r.lost*math.MaxUint64 {
		a.Skip = plan.SkipDuplicate
	}
	return a, true
}

// takes updates the statistics with new steps.
func (p *played) takes(ready planner.Ready) error {
	if ready.Ended {
		return nil // the last steps are not counted, because some are not full
	}
	for i := range ready.Steps {
		tokens := 0.0
		for _, row := range ready.Steps[i].Rows {
			for _, piece := range row {
				tokens += float64(piece.Length)
			}
		}
		p.count++
		p.sum += tokens
		p.squares += tokens * tokens
	}
	return nil
}

// steps returns the number of steps of a run that reads that many more tokens, with the standard error. doubt is the
// standard error of tokens.
func (p *played) steps(tokens, doubt float64) (steps, off float64) {
	steps = float64(p.Planner.Next())
	fed := float64(p.Fed - p.fed)
	each, spread := p.sum/p.count, 0.0 // tokens of a step, and their standard deviation
	if p.count == 0 {
		if each = fed / (steps - float64(p.first)); !(each > 0) || math.IsInf(each, 0) {
			return steps, 0
		}
	} else if p.count > 1 {
		spread = math.Sqrt(max(p.squares-p.count*each*each, 0) / (p.count - 1))
	}
	beyond := tokens - fed
	if p.whole {
		beyond = 0
	}
	steps = max(steps+beyond/each, float64(p.first))
	// Future steps have other numbers of tokens than the played ones, and the mean of the played ones has an error as
	// well.
	further := math.Sqrt(steps-float64(p.first)+beyond/each*beyond/each/max(p.count, 1)) * spread / each
	return steps, math.Hypot(doubt/each, further)
}
