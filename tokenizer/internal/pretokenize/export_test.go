package pretokenize

// TrailingPattern is for tests.
const TrailingPattern = trailingPattern

// HasRule tells whether a splitter finds the words of ASCII by a rule.
func (sp *Splitter) HasRule() bool { return sp.rule != nil }

// WithoutRule is a splitter by the automatons of sp alone.
func (sp *Splitter) WithoutRule() *Splitter { return &Splitter{stages: sp.stages} }
