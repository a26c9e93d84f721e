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
	"loaderd/loader/runconfig"
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

// Limits bounds the cost of an estimate, in documents of all sources. Tests change it.
var Limits = struct {
	Read   int   // added to the samples per estimate
	tokens int64 // bound on the tokens of these documents
	Sample int   // maximum size of all samples
	Played int   // planned to determine the tokens per step
	most   int   // planned if these give too few steps
}{1024, 4 << 20, 1 << 16, 1 << 16, 1 << 20}

const (
	// minSampleDocuments is the minimum number of documents of a source in a sample, if the source has that many.
	minSampleDocuments = 64
	// simulatedSteps is the number of steps that suffices to determine the tokens per step.
	simulatedSteps = 16
	// maxScheduledSteps bounds the steps that are counted one by one, because their size changes.
	maxScheduledSteps = 1 << 22
	// simulatedBatch is the number of documents planned without yielding: less than a millisecond of work.
	simulatedBatch = 128
)

// updateLength updates the estimate. ended reports that the plan already has the run's end.
func (f *forecast) updateLength(ctx context.Context) (ended bool, err error) {
	c, err := f.e.run.CopyPlanner(ctx)
	if err != nil || c.Ended {
		return c.Ended, err
	}
	f.e.mu.Lock()
	sure := f.e.length != nil && f.e.length.Exact && f.e.lengthControls == c.Controls
	asked := f.e.measureRequested
	f.e.mu.Unlock()
	if sure {
		return false, nil
	}
	f.throttle.startWork()
	left, err := f.sampleRemaining(ctx, c)
	if err != nil {
		return false, err
	}
	stored := make(map[int]uint64, len(left))
	for i, r := range left {
		if r.sample != nil {
			stored[i] = r.lastStored
		}
	}
	f.e.mu.Lock()
	f.e.lastStored = stored
	f.e.mu.Unlock()
	known, tokens, err := f.estimateLength(ctx, c, left)
	if err != nil {
		return false, err
	}
	f.e.setLength(known, c.Controls)
	if known.Endless || known.Idle || len(known.OpenSources) > 0 || c.rests() || !asked &&
		tokens > float64(f.e.options.MeasureTokens) {
		return false, nil
	}
	steps, err := f.measureSteps(ctx, c, known)
	if err != nil {
		return false, err
	}
	f.e.setLength(state.Length{Steps: steps, Exact: true}, c.Controls)
	f.e.log.Info("estimated the length of the run", event.RunEstimated, "steps", steps)
	return false, nil
}

// rests reports whether a source with remaining documents is paused. When it resumes is undecided.
func (c PlannerCopy) rests() bool {
	for _, s := range c.Sources {
		if s.Paused && !s.Exhausted && !s.Removed {
			return true
		}
	}
	return false
}

// remainingDocuments describes the remaining documents of a source.
type remainingDocuments struct {
	*sample
	selection      *plan.Selection
	lastStored     uint64            // last stored document
	epoch          uint64            // current epoch
	epochSample    []sampledDocument // remaining documents of the sample in the current epoch
	epochDocuments float64           // remaining documents of the current epoch
	duplicateShare float64           // part of the used documents that are duplicates, as observed so far
	tokens         float64           // in all epochs; math.Inf(1) for a source that repeats forever
	tokensError    float64           // standard error of tokens
}

// sampleRemaining returns the remaining documents of the sources: all that are stored, and a sample of them.
func (f *forecast) sampleRemaining(ctx context.Context, c PlannerCopy) ([]remainingDocuments, error) {
	streams, err := f.e.streams.RunStreams(ctx, f.e.run.Header())
	if err != nil {
		return nil, err
	}
	n := len(c.Sources)
	out := make([]remainingDocuments, n)
	f.round++
	size := min(int(f.round)*max(Limits.Read/n, minSampleDocuments), max(Limits.Sample/n, minSampleDocuments))
	for i := range out {
		r := &out[i]
		if c.Sources[i].Removed || c.Sources[i].Exhausted {
			continue
		}
		state, err := streams[i].Documents.State(ctx)
		if err != nil {
			return nil, err
		}
		walk, place := f.currentOrder(c, i, state.Last)
		r.lastStored, r.selection = walk.Last, &c.Selections[i]
		r.epochDocuments = float64(walk.Len() - min(place.Taken, walk.Len()))
		from := place.Taken
		if r.selection.Config.Epochs.HasEpochAfter(place.Epoch + 1) {
			from = 0 // the documents already read repeat
		}
		if !f.samples[i].covers(place.Epoch, from, walk.Len()) {
			f.samples[i] = newSample(f.e.config.Seed, f.e.config.Mix.Share, i, place.Epoch, from, max(walk.Len(), from))
		}
		r.sample = f.samples[i]
		r.removeBefore(from)
		if err := r.grow(ctx, streams[i].Documents, walk, size, Limits.tokens/int64(n), f.throttle.sleep); err != nil {
			return nil, err
		}
		r.epoch, r.epochSample = place.Epoch, r.documentsFrom(place.Taken)
		r.estimateTokens(c, i)
	}
	return out, nil
}

// currentOrder returns the order in which a source's documents are read up to the last stored one, and the current
// place in it.
func (f *forecast) currentOrder(c PlannerCopy, source int, last uint64) (*mixture.EpochOrder, mixture.SourcePosition) {
	place := c.Mix.Position(source)
	walk := c.Mix.EpochOrder(source, place.Epoch)
	if !c.Sources[source].Sealed { // then it is in the order of the stream
		walk.Last = max(last+1, walk.First+place.Taken) - 1
	}
	return walk, place
}

// estimateTokens estimates the remaining tokens of a source from its sample.
func (r *remainingDocuments) estimateTokens(c PlannerCopy, source int) {
	mean, off := estimateMean(r.epochSample, r.epochDocuments, r.selection)
	s, counts := c.Sources[source], c.Counts[source]
	duplicates := counts.Skipped.Count(plan.SkipDuplicate)
	if used := counts.Arrived - counts.Skipped.Total() + duplicates; used > 0 {
		r.duplicateShare = float64(duplicates) / float64(used)
	}
	epochs, fresh := float64(s.Epochs)-float64(s.Epoch), float64(s.EpochTokens)
	if s.Epochs == mixture.Forever {
		epochs = math.Inf(1)
	}
	now := r.epochDocuments * mean * (1 - r.duplicateShare)
	r.tokens, r.tokensError = now, r.epochDocuments*off*(1-r.duplicateShare)
	if epochs > 1 {
		r.tokens, r.tokensError = now+(epochs-1)*(fresh+now), epochs*r.tokensError
	}
	if r.epochDocuments+fresh == 0 { // no epoch follows one without tokens
		r.tokens, r.tokensError = 0, 0
	}
}

// estimateLength returns the estimated length of the run, and the number of tokens that it still reads.
func (f *forecast) estimateLength(ctx context.Context, c PlannerCopy,
	left []remainingDocuments) (known state.Length, tokens float64, err error) {
	known.OpenSources = c.openSources()
	tokens, doubt, how := c.remainingTokens(left)
	if how != mixture.Finite {
		known.Endless, known.Idle = how == mixture.Endless, how == mixture.Idle
		return known, tokens, nil
	}
	a, err := f.e.newApplier(ctx, c)
	if err != nil {
		return known, tokens, err
	}
	p := simulation{Applier: a, config: f.e.config, remaining: left,
		key: shuffle.NewKey(f.e.config.Seed, "documents to come")}
	if err := p.run(ctx, c); err != nil {
		return known, tokens, err
	}
	steps, off := p.estimateSteps(tokens, doubt)
	known.Steps, known.Error = uint64(math.Round(steps)), uint64(math.Ceil(2*off))+1
	return known, tokens, nil
}

// remainingTokens returns the number of tokens that the run still reads, with the standard error.
func (c PlannerCopy) remainingTokens(left []remainingDocuments) (tokens, doubt float64, how mixture.RunEnd) {
	lossParts := make([]float64, len(left))
	for i := range left {
		lossParts[i] = left[i].lossPart(left[i].selection)
	}
	tokens, how = c.Mix.RemainingTokens(sourceTokens(left, -1), lossParts)
	if how != mixture.Finite {
		return 0, 0, how
	}
	squares := 0.0
	for i := range left {
		if left[i].tokensError > 0 {
			more, _ := c.Mix.RemainingTokens(sourceTokens(left, i), lossParts)
			squares += (more - tokens) * (more - tokens)
		}
	}
	return tokens, math.Sqrt(squares), how
}

// sourceTokens returns the remaining tokens of each source, with the standard error added to one of them.
func sourceTokens(left []remainingDocuments, more int) []float64 {
	out := make([]float64, len(left))
	for i := range left {
		out[i] = left[i].tokens
	}
	if more >= 0 {
		out[more] += left[more].tokensError
	}
	return out
}

// simulation is a copy of the run's planner that plans documents such as those of the samples, from the run's current
// position. It writes nothing.
type simulation struct {
	*planner.Applier
	config         runconfig.Config
	remaining      []remainingDocuments
	key            shuffle.Key
	dealtPositions []mixture.SourcePosition // number of documents dealt from each source, and their epoch

	initialTokens int64 // tokens at its start
	firstStep     uint64
	stepCount     float64 // steps made before the end
	tokenSum      float64 // tokens of these steps
	squareSum     float64 // sum of the squared tokens of these steps
	scaleSum      float64 // sum of their sizes, relative to those of the first phase
	reachedEnd    bool    // it reached the run's end
}

// run plans documents until it has enough steps, or the run ends, and then seals the planner. It yields to all ready
// goroutines between portions. Otherwise ranks that wait for a step would wait until the runtime preempts it. It does
// not sleep, because its copy of the planner uses memory.
func (p *simulation) run(ctx context.Context, c PlannerCopy) error {
	p.initialTokens, p.firstStep, p.dealtPositions = p.UsedTokens, p.Planner.Next(),
		make([]mixture.SourcePosition, len(p.remaining))
	p.sealSources(c)
	for n := 0; ; n++ {
		if err := p.ApplyPending(p.countSteps); err != nil {
			return err
		}
		if p.reachedEnd = p.Ended; p.reachedEnd {
			return nil
		}
		if n >= Limits.most || n >= Limits.Played && p.stepCount >= simulatedSteps {
			break
		}
		if n%simulatedBatch == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			runtime.Gosched()
		}
		source, sequence, ok := p.Planner.NextDocument()
		a, there := plan.Arrival{}, false
		if ok {
			a, there = p.dealArrival(source, sequence)
		}
		if !there {
			break
		}
		ready, err := p.AddDocument(a)
		if err != nil {
			return err
		}
		if err := p.countSteps(ready); err != nil {
			return err
		}
	}
	p.Planner.Seal()
	return nil
}

// sealSources seals all open sources after their last stored documents, and resumes paused sources.
func (p *simulation) sealSources(c PlannerCopy) {
	for i, s := range c.Sources {
		if !s.Sealed && !s.Removed && !p.isSealPending(i) {
			p.Record(planrecord.SealSource{Arrival: c.Clock, Source: i, Last: p.remaining[i].lastStored})
		}
		if s.Paused && !s.Removed {
			p.Record(planrecord.Rest{Arrival: c.Clock, Source: i})
		}
	}
}

// isSealPending reports whether a seal of a source is recorded and not in effect yet.
func (p *simulation) isSealPending(source int) bool {
	for _, c := range p.Pending {
		if s, ok := c.(planrecord.SealSource); ok && s.Source == source {
			return true
		}
	}
	return false
}

// dealArrival returns a document of the sample in place of a future one. Within an epoch it uses all of them equally
// often.
func (p *simulation) dealArrival(source int, sequence uint64) (a plan.Arrival, ok bool) {
	r, at := &p.remaining[source], &p.dealtPositions[source]
	epoch := p.Planner.Mixture().Position(source).Epoch
	if at.Epoch != epoch {
		*at = mixture.SourcePosition{Epoch: epoch}
	}
	some := r.epochSample
	if epoch != r.epoch || len(some) == 0 && r.sample != nil {
		some = r.documents
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
	if a.Skip == "" && r.duplicateShare > 0 &&
		float64(p.key.Uint64(uint64(source)<<48|n)) < r.duplicateShare*math.MaxUint64 {
		a.Skip = plan.SkipDuplicate
	}
	return a, true
}

// countSteps updates the statistics with new steps.
func (p *simulation) countSteps(ready planner.Ready) error {
	if ready.Ended {
		return nil // the last steps are not counted, because some are not full
	}
	schedule := p.Planner.Schedule()
	for i := range ready.Steps {
		tokens := 0.0
		for _, row := range ready.Steps[i].Rows {
			for _, piece := range row {
				tokens += float64(piece.Length)
			}
		}
		p.stepCount++
		p.tokenSum += tokens
		p.squareSum += tokens * tokens
		p.scaleSum += schedule.StepScale(p.config, int(ready.Steps[i].Bucket), len(ready.Steps[i].Rows))
	}
	return nil
}

// estimateSteps returns the number of steps of a run that reads that many more tokens, with the standard error. doubt
// is the standard error of tokens.
func (p *simulation) estimateSteps(tokens, doubt float64) (steps, off float64) {
	steps = float64(p.Planner.Next())
	fed := float64(p.UsedTokens - p.initialTokens)
	each, spread := p.tokenSum/p.stepCount, 0.0 // tokens of a step, and their standard deviation
	if p.stepCount == 0 {
		if each = fed / (steps - float64(p.firstStep)); !(each > 0) || math.IsInf(each, 0) {
			return steps, 0
		}
	} else if p.stepCount > 1 {
		spread = math.Sqrt(max(p.squareSum-p.stepCount*each*each, 0) / (p.stepCount - 1))
	}
	beyond := tokens - fed
	if p.reachedEnd {
		beyond = 0
	}
	each = p.scheduledTokens(beyond, each)
	steps = max(steps+beyond/each, float64(p.firstStep))
	// Future steps have other numbers of tokens than the played ones, and the mean of the played ones has an error as
	// well.
	further := math.Sqrt(steps-float64(p.firstStep)+beyond/each*beyond/each/max(p.stepCount, 1)) * spread / each
	return steps, math.Hypot(doubt/each, further)
}

// scheduledTokens returns the mean number of tokens of the steps that hold that many further tokens. each is that of
// the steps made so far: the schedule may give later ones another size.
func (p *simulation) scheduledTokens(tokens, each float64) float64 {
	s := p.Planner.Schedule()
	if s.IsConstant() || p.scaleSum == 0 {
		return each
	}
	unit, left, steps := p.tokenSum/p.scaleSum, tokens, 0.0
	for ; left > 0 && !s.IsLast() && steps < maxScheduledSteps; steps++ {
		each = unit * s.Scale(p.config)
		left -= each
		s.Advance(int64(each))
	}
	if left > 0 {
		steps += left / (unit * s.Scale(p.config))
	}
	return tokens / max(steps, 1)
}
