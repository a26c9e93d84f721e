package packonline

import (
	"errors"
	"slices"
)

// method is one packing method.
type method struct {
	name       string
	make       func(Config) Packer
	several    bool     // takes several row lengths
	longest    int      // most tokens of a row
	parameters []string // fields of Config that it reads beside those that all do: pool, overlap, extra, padding_threshold
	// refuse returns what the method can not do in a Config that is good otherwise; nil without any such.
	refuse func(Config) []FieldError
}

var methods = []method{
	{name: "concat", make: newConcat, longest: maxRow},
	{name: "bfd", make: newBFD, longest: maxTable, parameters: []string{"pool"}},
}

// Methods lists the names that New knows.
func Methods() []string {
	names := make([]string, len(methods))
	for i := range methods {
		names[i] = methods[i].name
	}
	return names
}

// Parameters lists the fields of Config, by their names in a configuration file, that a method reads beside method, buckets, atom
// and max_age, which all do.
func Parameters(name string) []string {
	if m := find(name); m != nil {
		return slices.Clone(m.parameters)
	}
	return nil
}

// Buckets reports whether a method takes several row lengths.
func Buckets(name string) bool {
	m := find(name)
	return m != nil && m.several
}

func find(name string) *method {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i]
		}
	}
	return nil
}

func (m *method) reads(parameter string) bool { return slices.Contains(m.parameters, parameter) }

// New returns an empty Packer. The error joins every FieldError of the configuration.
func New(c Config) (Packer, error) {
	var bad []error
	for _, e := range c.Validate() {
		bad = append(bad, e)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return find(c.Method).make(c.Relevant()), nil
}
