package mixture

import (
	"fmt"
	"maps"
	"slices"
)

// Change is a requested change of the mixture.
type Change struct {
	// Weights are relative to each other, one for every source after the change. Complete adds missing ones.
	Weights map[string]float64 `json:"weights"`
	Add     map[string]Source  `json:"add,omitempty"`
	Remove  []string           `json:"remove,omitempty"`
}

// CompleteWeights returns the change with a weight for every source after it. An added source gets the weight of its
// configuration. Any other source that is not named keeps its current share.
func (m *Mixture) CompleteWeights(c Change) Change {
	weights := map[string]float64{}
	for _, s := range m.sources {
		if !s.removed && !slices.Contains(c.Remove, s.name) {
			weights[s.name] = float64(s.target) / Unit
		}
	}
	for name, s := range c.Add {
		weights[name] = s.Weight
	}
	maps.Copy(weights, c.Weights)
	c.Weights = weights
	return c
}

// Validate rejects invalid weights, names and configurations. Check also compares the change with the current
// mixture.
func (c Change) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
		if err := ValidateWeight(name, c.Weights[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Add)) {
		if !IsValidName(name) {
			return fmt.Errorf("%q is no name of a source: it has letters, digits, - and _, at most 64", name)
		}
		if bad := c.Add[name].Validate(); len(bad) > 0 {
			return fmt.Errorf("source %s: %w", name, bad[0])
		}
	}
	return nil
}

// ApplyChange changes the mixture. A ramp in progress ends at its current shares; later points of the schedule still
// apply. begins states where added sources begin.
func (m *Mixture) ApplyChange(c Change, begins map[string]SourceRange) error {
	if err := m.CheckChange(c); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Add)) {
		begin, ok := begins[name]
		if !ok {
			return fmt.Errorf("the beginning of source %s is missing", name)
		}
		s, err := newSource(name, c.Add[name], begin)
		if err != nil {
			return err
		}
		m.addSource(s)
	}
	weights := make([]float64, len(m.sources))
	for i, s := range m.sources {
		if slices.Contains(c.Remove, s.name) {
			s.removed = true
		}
		if !s.removed {
			weights[i] = c.Weights[s.name]
		}
	}
	m.ramp = ramp{}
	m.setTargets(apportion(toRationals(weights)))
	m.followSchedule()
	m.applySourceEnds()
	return nil
}

// CheckChange rejects a change that is not possible now.
func (m *Mixture) CheckChange(c Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	there := map[string]bool{} // name to whether the source is still present
	for _, s := range m.sources {
		there[s.name] = !s.removed
	}
	for name := range c.Add {
		if _, known := there[name]; known {
			return fmt.Errorf("source %s is or was a source of the run: a new one takes another name", name)
		}
		there[name] = true
	}
	if len(there) > MaxSources {
		return fmt.Errorf("a run has at most %d sources, removed ones among them", MaxSources)
	}
	for _, name := range c.Remove {
		if !there[name] {
			return fmt.Errorf("%s is no source of the run; they are %v", name, presentNames(there))
		}
		there[name] = false
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
		w := c.Weights[name]
		if !there[name] {
			return fmt.Errorf("%s is no source of the run; they are %v", name, presentNames(there))
		}
		sum += w
	}
	for _, name := range presentNames(there) {
		if _, ok := c.Weights[name]; !ok {
			return fmt.Errorf("source %s has no weight: 0 leaves it out", name)
		}
	}
	if sum == 0 {
		return fmt.Errorf("all weights are 0: one source at least needs a weight above")
	}
	return nil
}

func presentNames(there map[string]bool) (out []string) {
	for name, is := range there {
		if is {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
