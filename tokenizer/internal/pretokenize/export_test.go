package pretokenize

// TrailingPattern exports trailingPattern.
const TrailingPattern = trailingPattern

// HasRule reports whether a splitter finds the words of ASCII by a rule.
func (sp *Splitter) HasRule() bool { return sp.rule != nil }

// WithoutRule returns a splitter that uses only the automatons of sp.
func (sp *Splitter) WithoutRule() *Splitter { return &Splitter{stages: sp.stages} }
