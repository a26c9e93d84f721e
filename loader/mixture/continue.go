package mixture

import (
	"fmt"
	"maps"
	"slices"
)

// Known is a source as a run knows it.
type Known struct {
	Name   string
	Config Source
	Begin  Begin
}

// Of returns the mixture of a run that goes on with sources that are known, in the order of their numbers. RestoreState
// says how far they are read.
func Of(c Config, sources []Known) (*Mixture, error) {
	m := &Mixture{config: c, first: len(sources)}
	for _, x := range sources {
		s, err := newSource(x.Name, x.Config, x.Begin)
		if err != nil {
			return nil, err
		}
		m.add(s)
	}
	m.divide()
	return m, nil
}

// Continue lets the mixture go on with another configuration, each source where it is. begins says where those begin
// that come by it.
//
// When the configuration says of the sources and of the mix what the one before said, everything goes on as it is,
// changes that were made while the run went on among it. Otherwise the mixture is what the new configuration says:
// sources that it does not name are removed, those that were removed and that it names come back, and the shares are
// those that its weights and its schedule give at the tokens taken so far.
func (m *Mixture) Continue(c Config, begins map[string]Begin) error {
	for _, s := range m.sources {
		if next, named := c.Sources[s.name]; named {
			if err := s.mayTake(next, c.Seed != m.config.Seed); err != nil {
				return err
			}
		}
	}
	goesOn := m.config.mixesAs(c)
	for _, s := range m.sources {
		if next, named := c.Sources[s.name]; named {
			s.config, s.walk = next, nil
			s.drawn = s.begin.Sealed && next.Block > 0
		}
	}
	m.config = c
	if goesOn {
		m.divide()
		m.settle()
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if slices.ContainsFunc(m.sources, func(s *source) bool { return s.name == name }) {
			continue
		}
		begin, ok := begins[name]
		if !ok {
			return fmt.Errorf("mix sources: it is not said where %s begins", name)
		}
		s, err := newSource(name, c.Sources[name], begin)
		if err != nil {
			return err
		}
		m.add(s)
	}
	if len(m.sources) > MaxSources {
		return fmt.Errorf("a run has at most %d sources, removed ones among them", MaxSources)
	}
	weights := make([]float64, len(m.sources))
	for i, s := range m.sources {
		_, named := c.Sources[s.name]
		s.removed, s.resting = !named, s.resting && c.Mix.Dry == DryShare
		if named {
			weights[i] = s.config.Weight
		}
		s.exhausted = false // it may have another number of epochs
	}
	m.point, m.ramp = 0, ramp{}
	m.aim(apportion(rationals(weights)))
	m.advance()
	m.settle()
	return nil
}

// mixesAs reports whether two configurations say the same of sources and of the mix, but for what shapes no mixture:
// where a run begins with a source, and how its documents are packed.
func (c Config) mixesAs(d Config) bool {
	same := func(a, b Source) bool {
		for _, s := range []*Source{&a, &b} {
			s.Start, s.Packing, s.Attention = "", nil, ""
		}
		return equal(a, b)
	}
	return maps.EqualFunc(c.Sources, d.Sources, same) && c.Mix.Dry == d.Mix.Dry && c.Mix.End == d.Mix.End &&
		slices.EqualFunc(c.Mix.Schedule, d.Mix.Schedule, func(p, q Point) bool {
			return p.Tokens == q.Tokens && p.Ramp == q.Ramp && maps.Equal(p.Weights, q.Weights)
		})
}

// mayTake refuses a configuration, or another seed, that gives the epoch which is read another order: documents would
// be lost and come twice.
func (s *source) mayTake(c Source, reseeded bool) error {
	draws := s.epoch > 0 || s.begin.Sealed
	if !draws || s.taken == 0 || s.usedUp() {
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

// Unpack lets a source that was removed have no packing of its own: what is left of it is packed with the others.
func (m *Mixture) Unpack(source int) {
	if s := m.sources[source]; s.removed {
		s.config.Packing, s.config.Attention = nil, ""
	}
}
