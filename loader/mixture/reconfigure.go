package mixture

import (
	"fmt"
	"maps"
	"slices"
)

// ExistingSource is a source of an existing run.
type ExistingSource struct {
	Name   string
	Config Source
	Range  SourceRange
}

// NewForFork returns the mixture of a continued run with the given sources, in the order of their numbers. RestoreState
// sets their positions.
func NewForFork(c Config, sources []ExistingSource) (*Mixture, error) {
	m := &Mixture{config: c, initialSources: len(sources)}
	for _, x := range sources {
		s, err := newSource(x.Name, x.Config, x.Range)
		if err != nil {
			return nil, err
		}
		m.addSource(s)
	}
	m.updateShares()
	return m, nil
}

// Reconfigure applies another configuration and keeps the position of each source. begins states where the sources that
// it adds begin.
//
// If the new configuration has the same sources and the same mix as the old one, the mixture continues unchanged,
// including changes made during the run. Otherwise it follows the new configuration. Sources that it does not name
// are removed. Removed sources that it names are added again. The shares are those of its weights and its schedule at
// the number of tokens taken so far. If they are shares of something else than before, all sources begin without a
// deviation from them.
func (m *Mixture) Reconfigure(c Config, begins map[string]SourceRange) error {
	for _, s := range m.sources {
		if next, named := c.Sources[s.name]; named {
			if err := s.checkReconfigure(next, c.Seed != m.config.Seed); err != nil {
				return err
			}
		}
	}
	goesOn := m.config.hasSameMix(c)
	for _, s := range m.sources {
		if next, named := c.Sources[s.name]; named {
			s.config, s.epochOrder = next, nil
			s.shuffled = s.initialRange.Sealed && next.Block > 0
		}
	}
	if c.Mix.Share.CountsLoss() != m.config.Mix.Share.CountsLoss() {
		for i, s := range m.sources { // what has been counted is of another unit
			m.accounts[i].credit, s.lossTokens = 0, 0
		}
	}
	m.config = c
	if goesOn {
		m.updateShares()
		m.applySourceEnds()
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if slices.ContainsFunc(m.sources, func(s *source) bool { return s.name == name }) {
			continue
		}
		begin, ok := begins[name]
		if !ok {
			return fmt.Errorf("mix sources: the beginning of %s is missing", name)
		}
		s, err := newSource(name, c.Sources[name], begin)
		if err != nil {
			return err
		}
		m.addSource(s)
	}
	if len(m.sources) > MaxSources {
		return fmt.Errorf("a run has at most %d sources, removed ones among them", MaxSources)
	}
	weights := make([]float64, len(m.sources))
	for i, s := range m.sources {
		_, named := c.Sources[s.name]
		s.removed, s.paused = !named, s.paused && c.Mix.OnDry == DryShare
		if named {
			weights[i] = s.config.Weight
		}
		s.exhausted = false // it may have another number of epochs
	}
	m.nextPoint, m.ramp = 0, ramp{}
	m.setTargets(apportion(toRationals(weights)))
	m.followSchedule()
	m.applySourceEnds()
	return nil
}

// hasSameMix reports whether two configurations have equal sources and an equal mix. It ignores what does not affect
// the mixture: where a run starts to read a source, how its documents are filtered, and how they are packed.
func (c Config) hasSameMix(d Config) bool {
	same := func(a, b Source) bool {
		for _, s := range []*Source{&a, &b} {
			s.Start, s.Where, s.Packing, s.Attention = "", "", nil, ""
		}
		return equalConfigs(a, b)
	}
	return maps.EqualFunc(c.Sources, d.Sources, same) && c.Mix.Share.CountsLoss() == d.Mix.Share.CountsLoss() &&
		c.Mix.OnDry == d.Mix.OnDry && c.Mix.End == d.Mix.End &&
		slices.EqualFunc(c.Mix.Schedule, d.Mix.Schedule, func(p, q Point) bool {
			return p.Tokens == q.Tokens && p.After == q.After && p.Ramp == q.Ramp && maps.Equal(p.Weights, q.Weights)
		})
}

// checkReconfigure rejects a configuration or seed that changes the order of the current epoch. Otherwise documents
// would be lost or duplicated.
func (s *source) checkReconfigure(c Source, reseeded bool) error {
	draws := s.epoch > 0 || s.initialRange.Sealed
	if !draws || s.taken == 0 || s.isExhausted() {
		return nil
	}
	if c.Block != s.config.Block {
		return fmt.Errorf(
			"source %s: block is %d, and %d documents of its epoch are read in the order of block %d: keep that", s.name,
			c.Block, s.taken, s.config.Block)
	}
	if reseeded && c.Block > 0 {
		return fmt.Errorf(
			"source %s: %d documents of its epoch are read in an order that the run's seed has drawn: keep the seed",
			s.name, s.taken)
	}
	return nil
}

// DropPacking removes the packing of a removed source. Its remaining documents are packed with those of the other
// sources.
func (m *Mixture) DropPacking(source int) {
	if s := m.sources[source]; s.removed {
		s.config.Packing, s.config.Attention = nil, ""
	}
}
