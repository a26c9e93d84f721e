package simulation

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Mixture is a run of several sources, each a list of document lengths that is sealed before the run begins.
type Mixture struct {
	Config  mixture.Config
	Lengths map[string][]int32 // of every source of Config
	// Tokens is the number of tokens after which the run ends at the latest; 0 for no limit.
	Tokens int64
}

// Arrivals are the used documents of a mixture, in the order in which a run takes them.
type Arrivals struct {
	Lengths []int32 // in tokens

	mixture        *Mixture
	sourceNames    []string // of the sources, by number
	sourceOf       []uint16 // of each document
	numberInSource []int32  // and its number in its source, from 0
	targets        []target
	tokens         int64
	sources        []sourceCounts // by number
}

// sourceCounts counts the documents of one source.
type sourceCounts struct {
	total   int64 // used or not, in all epochs
	used    int64
	tokens  int64
	leftOut LeftOut
}

// target contains the target shares of all sources from a number of tokens on.
type target struct {
	from   int64
	shares []float64
}

// LeftOut counts the documents of a source that are not used, by reason.
type LeftOut struct {
	Split int64 `json:"split"` // not in the split
	Short int64 `json:"short"` // fewer tokens than min_tokens
	Long  int64 `json:"long"`  // more tokens than max_tokens
	// NotReached is the number of documents of the list that no epoch reached before the run ended.
	NotReached int64 `json:"not_reached"`
}

// Endless reports whether only Tokens ends the run, because of sources that are read forever.
func (m *Mixture) Endless() bool {
	forever := 0
	for _, s := range m.Config.Sources {
		if s.Epochs == mixture.Forever {
			forever++
		}
	}
	if m.Config.Mix.End == mixture.EndFirst {
		return forever == len(m.Config.Sources)
	}
	return forever > 0
}

// Arrivals returns the documents that the run takes.
func (m *Mixture) Arrivals(ctx context.Context) (*Arrivals, error) {
	begins := map[string]mixture.SourceRange{}
	for name, list := range m.Lengths {
		begins[name] = mixture.SourceRange{First: 1, Last: uint64(len(list)), Sealed: true}
	}
	mix, err := mixture.New(m.Config, begins)
	if err != nil {
		return nil, err
	}
	a := &Arrivals{mixture: m, sourceNames: slices.Sorted(maps.Keys(m.Config.Sources)),
		sources: make([]sourceCounts, len(m.Config.Sources))}
	lists := make([][]int32, len(a.sourceNames))
	for i, name := range a.sourceNames {
		lists[i] = m.Lengths[name]
	}
	for {
		source, sequence, ok := mix.Next()
		if !ok || m.Tokens > 0 && mix.Tokens() >= m.Tokens {
			break
		}
		if len(a.Lengths)%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(a.Lengths) == math.MaxInt32 {
			return nil, fmt.Errorf("the mixture has more than 2^31-1 documents: end it earlier, by tokens")
		}
		length := lists[source][sequence-1]
		used := a.sources[source].addDocument(mix.SourceConfig(source), sequence, length)
		if used {
			a.recordTargets(mix)
			a.Lengths = append(a.Lengths, length)
			a.sourceOf, a.numberInSource = append(a.sourceOf, uint16(source)), append(a.numberInSource, int32(sequence-1))
			a.tokens += int64(length)
			mix.RecordNext(int(length), int(length))
			mix.ApplySourceEnds()
			continue
		}
		mix.RecordNext(0, 0)
		mix.ApplySourceEnds()
	}
	for i := range a.sources {
		if all := int64(len(lists[i])); a.sources[i].total < all {
			a.sources[i].leftOut.NotReached = all - a.sources[i].total
		}
	}
	return a, nil
}

// addDocument counts a document and reports whether it is used.
func (s *sourceCounts) addDocument(c mixture.Source, sequence uint64, length int32) bool {
	s.total++
	switch {
	case !c.Split.Includes(0, sequence):
		s.leftOut.Split++
	case int(length) < c.MinTokens:
		s.leftOut.Short++
	case c.MaxTokens > 0 && int(length) > c.MaxTokens:
		s.leftOut.Long++
	default:
		s.used++
		s.tokens += int64(length)
		return true
	}
	return false
}

// recordTargets records the target shares if they have changed.
func (a *Arrivals) recordTargets(mix *mixture.Mixture) {
	last := len(a.targets) - 1
	if last >= 0 && a.hasShares(mix, a.targets[last].shares) {
		return
	}
	t := target{from: a.tokens, shares: make([]float64, len(a.sourceNames))}
	for i := range t.shares {
		t.shares[i] = mix.Share(i)
	}
	a.targets = append(a.targets, t)
}

func (a *Arrivals) hasShares(mix *mixture.Mixture, shares []float64) bool {
	for i, x := range shares {
		if mix.Share(i) != x {
			return false
		}
	}
	return true
}

// meanTarget returns the mean target of a source over the tokens [from, to).
func (a *Arrivals) meanTarget(source int, from, to float64) float64 {
	sum := 0.0
	for k, t := range a.targets {
		end := float64(a.tokens)
		if k+1 < len(a.targets) {
			end = float64(a.targets[k+1].from)
		}
		if n := min(end, to) - max(float64(t.from), from); n > 0 {
			sum += n * t.shares[source]
		}
	}
	return ratio(sum, to-from)
}

// RunMixture is RunDocuments for a mixture. Its result has Sources.
func RunMixture(ctx context.Context, c packonline.Config, a *Arrivals, below int, each RowFunc) (*Result, error) {
	return run(ctx, c, a.Lengths, nil, below, newSourceCounter(a), each)
}

// Placements writes sequences in the format of Run, but with documents named by source and number in it:
// source/document:start:length.
func (a *Arrivals) Placements(out io.Writer) RowFunc {
	return newLineWriter(out, func(b []byte, arrival uint64) []byte {
		b = append(append(b, a.sourceNames[a.sourceOf[arrival]]...), '/')
		return strconv.AppendInt(b, int64(a.numberInSource[arrival]), 10)
	})
}
