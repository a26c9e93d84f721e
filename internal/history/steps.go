package history

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"loaderd/internal/api"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
)

// bins is the number of bins of piece lengths: bin i holds lengths from 2^(i-1)+1 to 2^i tokens.
const bins = 32

// maxMarks is the number of newest marks that are kept.
const maxMarks = 500

// Steps is the course of a run by step. Its only input is the plan's records, from the first one on.
type Steps struct {
	header      planrecord.Header
	buckets     []int
	sourceNames []string // of sources, by number
	targets     targetShares
	complete    uint64 // number of complete steps
	pending     point  // the step whose parts are being read
	pyramid     pyramid[point]
	lengths     [bins]int64
	marks       []api.Mark
}

// point is the summary of one step or of several.
type point struct {
	first, steps                     uint64
	buckets                          []uint64
	slots, tokens, pieces, continued int64
	age, waits                       uint64
	sources                          []int64 // tokens by source, in the unit of the shares
	lossTokens                       []int64 // of a step, in a run with shares of tokens with a loss
	targets                          []float64
	lengths                          [bins]int64
}

// NewSteps returns an empty Steps.
func NewSteps() *Steps { return &Steps{pyramid: newPyramid(mergePoints)} }

func mergePoints(p *point, q point) {
	if p.steps == 0 {
		p.first = q.first
	}
	p.steps += q.steps
	p.buckets = append(p.buckets, make([]uint64, max(0, len(q.buckets)-len(p.buckets)))...)
	for i, n := range q.buckets {
		p.buckets[i] += n
	}
	p.slots, p.tokens, p.pieces, p.continued = p.slots+q.slots, p.tokens+q.tokens, p.pieces+q.pieces,
		p.continued+q.continued
	p.age, p.waits = max(p.age, q.age), max(p.waits, q.waits)
	p.sources = append(p.sources, make([]int64, max(0, len(q.sources)-len(p.sources)))...)
	for i, n := range q.sources {
		p.sources[i] += n
	}
	p.targets = q.targets
	for i, n := range q.lengths {
		p.lengths[i] += n
	}
}

// clone returns a copy. It shares the targets, which are never changed.
func (p point) clone() point {
	p.buckets, p.sources = slices.Clone(p.buckets), slices.Clone(p.sources)
	return p
}

// Add adds the next record of the plan.
func (s *Steps) Add(e planrecord.Entry) error {
	switch e := e.(type) {
	case planrecord.Header:
		s.applyHeader(e)
	case planrecord.StepPart:
		return s.addStepPart(&e)
	case planrecord.Mix:
		for _, b := range e.SourceBegins {
			s.sourceNames = append(s.sourceNames, b.Name)
		}
		for _, name := range e.Remove {
			s.targets.seal(name)
		}
		s.targets.setWeights(s.sourceNames, e.Change.Weights)
		s.addMark("weights", "weights "+formatWeights(e.Weights), e.Requester)
	case planrecord.Filter:
		s.addMark("filter", e.Effect(), e.Requester)
	case planrecord.Schedule:
		s.addMark("schedule", "schedule "+e.Describe(), e.Requester)
	case planrecord.SealSource:
		s.targets.seal(s.sourceName(e.Source))
		s.addMark("seal", "source "+s.sourceName(e.Source)+" sealed", e.Requester)
	case planrecord.Flush:
		s.addMark("flush", "flushed", e.Requester)
	case planrecord.Rest:
		what := "paused"
		if !e.Rests {
			what = "has documents again"
		}
		s.addMark("rest", "source "+s.sourceName(e.Source)+" "+what, "")
	case planrecord.Term:
		s.addMark("leader", e.Daemon+" leads", "")
	case planrecord.End:
		s.targets.end(s.retarget)
		s.addMark("end", "the run ends", "")
	}
	return nil
}

func (s *Steps) applyHeader(h planrecord.Header) {
	s.header, s.buckets = h, slices.Clone(h.Config.Packing.Buckets)
	for _, x := range h.Infos() {
		s.sourceNames = append(s.sourceNames, x.Name)
	}
	s.targets = newTargetShares(s.sourceNames, h.Config)
	for _, x := range h.Infos() {
		if x.Sealed {
			s.targets.seal(x.Name)
		}
	}
}

func (s *Steps) sourceName(source int) string {
	if source < len(s.sourceNames) {
		return s.sourceNames[source]
	}
	return fmt.Sprint(source)
}

// addStepPart adds a part of a step. The last part completes the step.
func (s *Steps) addStepPart(e *planrecord.StepPart) error {
	if e.Index != s.complete {
		return fmt.Errorf("step %d follows step %d", e.Index, s.complete)
	}
	if e.Part == 0 {
		bucket := slices.Index(s.buckets, int(e.Bucket))
		if bucket < 0 { // of a later phase
			bucket, s.buckets = len(s.buckets), append(s.buckets, int(e.Bucket))
		}
		s.pending = point{first: e.Index, steps: 1, waits: e.Cursor.Last() - min(e.Cursor.Last(), e.LowWatermark.Last()),
			buckets: make([]uint64, len(s.buckets))}
		s.pending.buckets[bucket] = 1
	}
	p := &s.pending
	if e.Part == 0 && e.SourceLossTokens != nil {
		if len(e.SourceLossTokens) > len(s.sourceNames) {
			return fmt.Errorf("step %d names %d sources of %d", e.Index, len(e.SourceLossTokens), len(s.sourceNames))
		}
		p.lossTokens = e.SourceLossTokens
	}
	p.slots += int64(e.Bucket) * int64(len(e.Rows))
	for _, row := range e.Rows {
		for _, x := range row {
			p.pieces++
			p.tokens += int64(x.Length)
			p.lengths[bin(x.Length)]++
			if x.Start > 0 {
				p.continued++
			}
			if len(s.sourceNames) == 1 {
				arrival := plan.RefSequence(x.Doc) + 1 - min(s.header.Sources[0].Start, plan.RefSequence(x.Doc))
				p.age = max(p.age, e.Cursor.Last()-min(e.Cursor.Last(), arrival))
			}
			source := plan.RefSource(x.Doc)
			if source >= len(s.sourceNames) {
				return fmt.Errorf("step %d names source %d of %d", e.Index, source, len(s.sourceNames))
			}
			if source >= len(p.sources) {
				p.sources = append(p.sources, make([]int64, source+1-len(p.sources))...)
			}
			p.sources[source] += int64(x.Length)
		}
	}
	if e.Part < e.Parts-1 {
		return nil
	}
	for i, n := range p.lengths {
		s.lengths[i] += n
	}
	s.complete++
	sources := p.sources
	if p.lossTokens != nil {
		p.sources, p.lossTokens = p.lossTokens, nil
	}
	s.pyramid.add(p.clone(), p.clone())
	s.targets.advance(p.tokens, sources, s.retarget)
	return nil
}

// retarget replaces the targets of the steps after a number of the run's tokens.
func (s *Steps) retarget(after int64, at func(tokens int64) []float64) {
	for _, points := range [][]point{s.pyramid.summary, s.pyramid.newest} {
		tokens := s.targets.now.tokens
		for i := len(points) - 1; i >= 0 && tokens > after; i-- {
			points[i].targets = at(tokens)
			tokens -= points[i].tokens
		}
	}
}

func bin(length int32) int { return min(bins-1, bits.Len32(uint32(max(length, 1)-1))) }

func (s *Steps) addMark(kind, text, by string) {
	if by != "" {
		text += " by " + by
	}
	if len(s.marks) == maxMarks {
		s.marks = slices.Delete(s.marks, 0, 1)
	}
	s.marks = append(s.marks, api.Mark{Step: s.complete, Kind: kind, Text: text})
}

func formatWeights(weights map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		parts = append(parts, fmt.Sprintf("%s %.3g", name, weights[name]))
	}
	return strings.Join(parts, ", ")
}

// CompleteSteps returns the number of complete steps.
func (s *Steps) CompleteSteps() uint64 { return s.complete }

// RecentShares returns each source's share of the newest recentSteps steps, in the unit of the shares. It is empty
// before the first step.
func (s *Steps) RecentShares() map[string]float64 {
	sums, all := make([]int64, len(s.sourceNames)), int64(0)
	newest := s.pyramid.newest
	for _, p := range newest[max(0, len(newest)-recentSteps):] {
		for i, n := range p.sources {
			sums[i] += n
			all += n
		}
	}
	out := map[string]float64{}
	if all == 0 {
		return out
	}
	for i, n := range sums {
		out[s.sourceNames[i]] = float64(n) / float64(all)
	}
	return out
}

// recentSteps is the number of steps that Recent averages.
const recentSteps = 100

// Fill sets the fields of h that are by step.
func (s *Steps) Fill(h *api.History) {
	h.ShareUnit = s.header.Config.Mix.Share
	h.Run, h.Sources, h.Buckets, h.KnownSteps = s.header.Run, slices.Clone(s.sourceNames), slices.Clone(s.buckets),
		s.complete
	h.Steps, h.RecentSteps = s.series(s.pyramid.summary, uint64(s.pyramid.width)), s.series(s.pyramid.newest, 1)
	h.Marks, h.Lengths = slices.Clone(s.marks), slices.Clone(s.lengths[:])
}

func (s *Steps) series(all []point, width uint64) api.StepSeries {
	out := api.StepSeries{Width: width, Buckets: make([][]uint64, len(s.buckets))}
	mixed := len(s.sourceNames) > 1
	if mixed {
		out.Sources, out.Targets = make([][]int64, len(s.sourceNames)), make([][]float64, len(s.sourceNames))
	}
	for _, p := range all {
		out.First, out.Steps = append(out.First, p.first), append(out.Steps, p.steps)
		for i := range s.buckets {
			var steps uint64
			if i < len(p.buckets) {
				steps = p.buckets[i]
			}
			out.Buckets[i] = append(out.Buckets[i], steps)
		}
		out.Slots, out.Tokens, out.Pieces, out.Continued = append(out.Slots, p.slots), append(out.Tokens, p.tokens),
			append(out.Pieces, p.pieces), append(out.Continued, p.continued)
		out.Waits = append(out.Waits, p.waits)
		if !mixed {
			out.Age = append(out.Age, p.age)
		}
		for i := range out.Sources {
			var tokens int64
			var target float64
			if i < len(p.sources) {
				tokens = p.sources[i]
			}
			if i < len(p.targets) {
				target = p.targets[i]
			}
			out.Sources[i], out.Targets[i] = append(out.Sources[i], tokens), append(out.Targets[i], target)
		}
		out.P10, out.P50, out.P90 = append(out.P10, quantile(p.lengths, .1)), append(out.P50, quantile(p.lengths, .5)),
			append(out.P90, quantile(p.lengths, .9))
	}
	return out
}

// quantile returns a quantile of lengths, on the assumption that they are evenly distributed within each bin.
func quantile(lengths [bins]int64, q float64) int {
	var all int64
	for _, n := range lengths {
		all += n
	}
	left := q * float64(all)
	for i, n := range lengths {
		if left > float64(n) || n == 0 {
			left -= float64(n)
			continue
		}
		if i == 0 {
			return 1
		}
		low, high := float64(int64(1)<<(i-1)), float64(int64(1)<<i)
		return int(low + (high-low)*left/float64(n))
	}
	return 0
}
